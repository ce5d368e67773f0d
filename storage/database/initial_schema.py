"""The first migration: models, samples, jobs, checkpoints, versions, events."""

from __future__ import annotations

TABLES = """
CREATE TABLE files (
  sha256 TEXT PRIMARY KEY CHECK (length(sha256) = 64),
  size_bytes INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE models (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL UNIQUE,
  created_at TEXT NOT NULL,
  loss TEXT NOT NULL,
  optimizer TEXT NOT NULL,
  output TEXT NOT NULL,
  signature TEXT NOT NULL,
  trainable TEXT NOT NULL,
  trainable_parameters INTEGER NOT NULL,
  frozen_parameters INTEGER NOT NULL,
  hyperparameters TEXT NOT NULL,
  notes TEXT NOT NULL
) STRICT;

CREATE TABLE model_files (
  model_id INTEGER NOT NULL REFERENCES models (id) ON DELETE CASCADE,
  role TEXT NOT NULL,
  sha256 TEXT NOT NULL REFERENCES files (sha256),
  PRIMARY KEY (model_id, role)
) STRICT, WITHOUT ROWID;

CREATE INDEX model_files_by_file ON model_files (sha256);

CREATE TABLE packs (
  model_id INTEGER NOT NULL REFERENCES models (id) ON DELETE CASCADE,
  pack INTEGER NOT NULL,
  size_bytes INTEGER NOT NULL,
  PRIMARY KEY (model_id, pack)
) STRICT, WITHOUT ROWID;

CREATE TABLE samples (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  model_id INTEGER NOT NULL REFERENCES models (id) ON DELETE CASCADE,
  pack INTEGER NOT NULL,
  offset INTEGER NOT NULL,
  length INTEGER NOT NULL,
  split TEXT NOT NULL CHECK (split IN ('train', 'validation')),
  label ANY CHECK (typeof(label) IN ('null', 'blob') OR (typeof(label) = 'integer' AND label >= 0)),
  key TEXT,
  sha256 BLOB NOT NULL,
  created_at TEXT NOT NULL
) STRICT;

CREATE INDEX samples_by_model ON samples (model_id);

CREATE UNIQUE INDEX samples_by_key ON samples (model_id, key) WHERE key IS NOT NULL;

CREATE INDEX samples_by_class ON samples (model_id, label) WHERE typeof(label) = 'integer';

CREATE INDEX samples_unlabelled ON samples (model_id) WHERE label IS NULL;

-- class: the class index, -1 for no label, -2 for a label that is not a class index. An upload
-- counts its rows in one statement: a trigger for each took a fifth of its time.
CREATE TABLE sample_counts (
  model_id INTEGER NOT NULL REFERENCES models (id) ON DELETE CASCADE,
  split TEXT NOT NULL,
  class INTEGER NOT NULL,
  count INTEGER NOT NULL,
  PRIMARY KEY (model_id, split, class)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER samples_uncounted AFTER DELETE ON samples BEGIN
  UPDATE sample_counts SET count = count - 1
  WHERE model_id = OLD.model_id AND split = OLD.split AND class =
    CASE typeof(OLD.label) WHEN 'integer' THEN OLD.label WHEN 'null' THEN -1 ELSE -2 END;
END;

CREATE TRIGGER samples_recounted AFTER UPDATE OF split, label ON samples BEGIN
  UPDATE sample_counts SET count = count - 1
  WHERE model_id = OLD.model_id AND split = OLD.split AND class =
    CASE typeof(OLD.label) WHEN 'integer' THEN OLD.label WHEN 'null' THEN -1 ELSE -2 END;
  INSERT INTO sample_counts VALUES (
    NEW.model_id, NEW.split,
    CASE typeof(NEW.label) WHEN 'integer' THEN NEW.label WHEN 'null' THEN -1 ELSE -2 END, 1
  ) ON CONFLICT DO UPDATE SET count = count + 1;
END;

-- Ranges of deleted samples that are yet to be overwritten with zeros.
CREATE TABLE erasures (
  id INTEGER PRIMARY KEY,
  model_id INTEGER NOT NULL REFERENCES models (id) ON DELETE CASCADE,
  pack INTEGER NOT NULL,
  offset INTEGER NOT NULL,
  length INTEGER NOT NULL
) STRICT;

CREATE INDEX erasures_by_model ON erasures (model_id);

CREATE TABLE jobs (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  model_id INTEGER NOT NULL REFERENCES models (id) ON DELETE CASCADE,
  state TEXT NOT NULL,
  cause TEXT NOT NULL,
  hyperparameters TEXT NOT NULL,
  start TEXT NOT NULL,
  ignore_policy INTEGER NOT NULL,
  watermark INTEGER NOT NULL,
  created_at TEXT NOT NULL,
  blocked_by TEXT NOT NULL DEFAULT '[]',
  progress TEXT NOT NULL DEFAULT '{}',
  metrics TEXT NOT NULL DEFAULT '{}',
  version INTEGER,
  restarts INTEGER NOT NULL DEFAULT 0,
  error TEXT,
  started_at TEXT,
  finished_at TEXT
) STRICT;

CREATE INDEX jobs_by_model ON jobs (model_id);

CREATE INDEX jobs_unfinished ON jobs (state) WHERE state IN ('queued', 'running', 'paused');

CREATE TABLE metrics (
  job_id INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
  step INTEGER NOT NULL,
  epoch INTEGER NOT NULL,
  measured TEXT NOT NULL,
  PRIMARY KEY (job_id, step)
) STRICT, WITHOUT ROWID;

CREATE TABLE checkpoints (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  model_id INTEGER NOT NULL REFERENCES models (id) ON DELETE CASCADE,
  job_id INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
  role TEXT NOT NULL CHECK (role IN ('periodic', 'best', 'final')),
  step INTEGER NOT NULL,
  epoch INTEGER NOT NULL,
  sha256 TEXT NOT NULL REFERENCES files (sha256),
  state TEXT NOT NULL,
  pinned INTEGER NOT NULL DEFAULT 0,
  note TEXT NOT NULL DEFAULT '',
  created_at TEXT NOT NULL
) STRICT;

CREATE INDEX checkpoints_by_model ON checkpoints (model_id);

CREATE INDEX checkpoints_by_job ON checkpoints (job_id, role);

CREATE INDEX checkpoints_by_file ON checkpoints (sha256);

CREATE TABLE versions (
  model_id INTEGER NOT NULL REFERENCES models (id) ON DELETE CASCADE,
  version INTEGER NOT NULL,
  sha256 TEXT NOT NULL REFERENCES files (sha256),
  created_at TEXT NOT NULL,
  job_id INTEGER REFERENCES jobs (id),
  checkpoint_id INTEGER REFERENCES checkpoints (id),
  metrics TEXT NOT NULL,
  baseline TEXT NOT NULL,
  promoted INTEGER NOT NULL,
  reason TEXT NOT NULL,
  PRIMARY KEY (model_id, version)
) STRICT, WITHOUT ROWID;

CREATE INDEX versions_by_file ON versions (sha256);

CREATE INDEX versions_by_job ON versions (job_id);

CREATE INDEX versions_by_checkpoint ON versions (checkpoint_id);

CREATE TABLE aliases (
  model_id INTEGER NOT NULL,
  alias TEXT NOT NULL,
  version INTEGER NOT NULL,
  PRIMARY KEY (model_id, alias),
  FOREIGN KEY (model_id, version) REFERENCES versions (model_id, version) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE INDEX aliases_by_version ON aliases (model_id, version);

CREATE TABLE events (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  type TEXT NOT NULL,
  model TEXT,
  data TEXT NOT NULL,
  created_at TEXT NOT NULL
) STRICT;
"""
