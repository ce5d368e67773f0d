-- The migrations that have run; sqlite-utils reads and writes it.
CREATE TABLE _sqlite_migrations (
  id INTEGER PRIMARY KEY,
  migration_set TEXT,
  name TEXT,
  applied_at TEXT
);
CREATE UNIQUE INDEX idx__sqlite_migrations_migration_set_name
ON _sqlite_migrations (migration_set, name);

CREATE TABLE files (
  sha256 TEXT PRIMARY KEY CHECK (length(sha256) = 64),
  size_bytes INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Files that are assembled from `base` by the steps in `recipe`.
CREATE TABLE assembled_files (
  sha256 TEXT PRIMARY KEY REFERENCES files ON DELETE CASCADE,
  base TEXT NOT NULL REFERENCES files,
  recipe TEXT NOT NULL REFERENCES files
) STRICT, WITHOUT ROWID;
CREATE INDEX assembled_files_by_base ON assembled_files (base);
CREATE INDEX assembled_files_by_recipe ON assembled_files (recipe);

-- target: of the signature. The base that its newest version descends from is in `bases`.
CREATE TABLE models (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL UNIQUE,
  created_at TEXT NOT NULL,
  loss TEXT NOT NULL,
  optimizer TEXT NOT NULL,
  target TEXT NOT NULL,
  hyperparameters TEXT NOT NULL,
  gate TEXT NOT NULL DEFAULT '{}',
  retention TEXT NOT NULL DEFAULT '{}',
  held_since TEXT,
  reference_frozen_at TEXT,
  quota TEXT NOT NULL DEFAULT '{}',
  keeps_duplicates INTEGER NOT NULL DEFAULT 0,
  features TEXT,
  base_set_at TEXT,
  federation TEXT NOT NULL DEFAULT '{}',
  privacy_spent TEXT NOT NULL DEFAULT '{}'
) STRICT;

-- The forward files that a model's versions descend from, as they were prepared. sha256: of the file as
-- it came. adopted_at: when a version of it first became `latest`; null for an upgrade that is not
-- decided. shapes: hash of the names and shapes of what trains. request: what its jobs were asked for.
-- job_id: its newest job. labelled: how many labelled samples there were then.
CREATE TABLE bases (
  model_id INTEGER NOT NULL REFERENCES models (id) ON DELETE CASCADE,
  base INTEGER NOT NULL,
  sha256 TEXT NOT NULL,
  arrived_at TEXT NOT NULL,
  adopted_at TEXT,
  engine TEXT NOT NULL,
  output TEXT NOT NULL,
  loss_output TEXT,
  inputs TEXT NOT NULL,
  loss_of_samples INTEGER NOT NULL,
  trainable TEXT NOT NULL,
  trainable_parameters INTEGER NOT NULL,
  frozen_parameters INTEGER NOT NULL,
  notes TEXT NOT NULL,
  shapes TEXT NOT NULL DEFAULT '',
  preprocess TEXT NOT NULL DEFAULT '[]',
  request TEXT NOT NULL DEFAULT '{}',
  job_id INTEGER,
  labelled INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (model_id, base)
) STRICT, WITHOUT ROWID;

CREATE TABLE base_files (
  model_id INTEGER NOT NULL,
  base INTEGER NOT NULL,
  role TEXT NOT NULL,
  sha256 TEXT NOT NULL REFERENCES files (sha256),
  PRIMARY KEY (model_id, base, role),
  FOREIGN KEY (model_id, base) REFERENCES bases (model_id, base) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE INDEX base_files_by_file ON base_files (sha256);

-- leftovers: whether bytes that belong to no sample may be others than zeros.
CREATE TABLE packs (
  model_id INTEGER NOT NULL REFERENCES models (id) ON DELETE CASCADE,
  pack INTEGER NOT NULL,
  size_bytes INTEGER NOT NULL,
  erased_bytes INTEGER NOT NULL DEFAULT 0,
  leftovers INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (model_id, pack)
) STRICT, WITHOUT ROWID;

CREATE TABLE samples (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  model_id INTEGER NOT NULL REFERENCES models (id) ON DELETE CASCADE,
  pack INTEGER NOT NULL,
  offset INTEGER NOT NULL,
  length INTEGER NOT NULL,
  split TEXT NOT NULL CHECK (split IN ('train', 'validation', 'base')),
  label ANY CHECK (typeof(label) IN ('null', 'blob') OR (typeof(label) = 'integer' AND label >= 0)),
  key TEXT,
  sha256 BLOB NOT NULL,
  created_at TEXT NOT NULL,
  pinned INTEGER NOT NULL DEFAULT 0,
  quarantine TEXT,
  owner TEXT,
  weight REAL NOT NULL DEFAULT 1,
  split_before TEXT
) STRICT;

CREATE INDEX samples_by_model ON samples (model_id);

CREATE UNIQUE INDEX samples_by_key ON samples (model_id, key) WHERE key IS NOT NULL;

CREATE INDEX samples_by_class ON samples (model_id, label) WHERE typeof(label) = 'integer';

-- Prefixes of the digests: whole ones would make the index three times as large.
CREATE INDEX samples_by_content ON samples (model_id, substr(sha256, 1, 8));

CREATE INDEX samples_unlabelled ON samples (model_id) WHERE label IS NULL;

CREATE INDEX samples_pinned ON samples (model_id) WHERE pinned;

CREATE INDEX samples_quarantined ON samples (model_id) WHERE quarantine IS NOT NULL;

CREATE INDEX samples_validation ON samples (model_id) WHERE split = 'validation';

CREATE INDEX samples_base ON samples (model_id) WHERE split = 'base';

CREATE INDEX samples_trainable ON samples (model_id, split)
WHERE label IS NOT NULL AND quarantine IS NULL;

CREATE INDEX samples_by_owner ON samples (model_id, owner) WHERE owner IS NOT NULL;

-- class: the class index, -1 for no label, -2 for a label that is not a class index. An upload
-- counts its rows in one statement: a trigger per row took a fifth of its time.
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

-- owner: '' for none.
CREATE TABLE sample_owners (
  model_id INTEGER NOT NULL REFERENCES models (id) ON DELETE CASCADE,
  owner TEXT NOT NULL,
  split TEXT NOT NULL,
  count INTEGER NOT NULL,
  size_bytes INTEGER NOT NULL,
  PRIMARY KEY (model_id, owner, split)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER samples_disowned AFTER DELETE ON samples BEGIN
  UPDATE sample_owners SET count = count - 1, size_bytes = size_bytes - OLD.length
  WHERE model_id = OLD.model_id AND owner = coalesce(OLD.owner, '') AND split = OLD.split;
END;

CREATE TRIGGER samples_resplit AFTER UPDATE OF split ON samples BEGIN
  UPDATE sample_owners SET count = count - 1, size_bytes = size_bytes - OLD.length
  WHERE model_id = OLD.model_id AND owner = coalesce(OLD.owner, '') AND split = OLD.split;
  INSERT INTO sample_owners VALUES (
    NEW.model_id, coalesce(NEW.owner, ''), NEW.split, 1, NEW.length
  ) ON CONFLICT DO UPDATE SET
    count = count + 1, size_bytes = size_bytes + excluded.size_bytes;
END;

-- Samples that are being deleted, a few at a time. ids: which (storage/records/id_set.py), if they then
-- match the filter `condition`; null for all, and then the model.
CREATE TABLE deletions (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  model_id INTEGER NOT NULL REFERENCES models (id) ON DELETE CASCADE,
  ids BLOB,
  condition TEXT NOT NULL DEFAULT '{}'
) STRICT;

CREATE INDEX deletions_by_model ON deletions (model_id);

-- Ranges of deleted samples that must still be overwritten with zeros.
CREATE TABLE erasures (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  model_id INTEGER NOT NULL REFERENCES models (id) ON DELETE CASCADE,
  pack INTEGER NOT NULL,
  offset INTEGER NOT NULL,
  length INTEGER NOT NULL,
  sample_id INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE INDEX erasures_by_model ON erasures (model_id);

-- base: what it trains; null until it starts, and then the model's current one.
CREATE TABLE jobs (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  model_id INTEGER NOT NULL REFERENCES models (id) ON DELETE CASCADE,
  base INTEGER,
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
  finished_at TEXT,
  priority INTEGER NOT NULL DEFAULT 0,
  engine TEXT,
  choices TEXT NOT NULL DEFAULT '{}'
) STRICT;

CREATE INDEX jobs_by_model ON jobs (model_id);

-- ids: samples that a job has trained on (storage/records/id_set.py), besides those of the job that it
-- started from.
CREATE TABLE job_samples (
  job_id INTEGER PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE,
  started_from INTEGER REFERENCES job_samples,
  ids BLOB NOT NULL
) STRICT;

CREATE INDEX job_samples_by_start ON job_samples (started_from);

-- Once this job succeeds, versions that have seen one of these samples are deleted.
CREATE TABLE forgettings (
  job_id INTEGER PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE,
  ids BLOB NOT NULL
) STRICT;

CREATE INDEX jobs_unfinished ON jobs (state) WHERE state IN ('queued', 'running', 'paused');

-- Points of jobs that have not ended, and curves that are too long for one row.
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
  created_at TEXT NOT NULL,
  engine TEXT NOT NULL
) STRICT;

CREATE INDEX checkpoints_by_model ON checkpoints (model_id);

CREATE INDEX checkpoints_by_job ON checkpoints (job_id, role);

CREATE INDEX checkpoints_by_file ON checkpoints (sha256);

CREATE TABLE versions (
  model_id INTEGER NOT NULL REFERENCES models (id) ON DELETE CASCADE,
  version INTEGER NOT NULL,
  base INTEGER NOT NULL,
  sha256 TEXT NOT NULL REFERENCES files (sha256),
  created_at TEXT NOT NULL,
  job_id INTEGER REFERENCES jobs (id),
  checkpoint_id INTEGER REFERENCES checkpoints (id),
  metrics TEXT NOT NULL,
  baseline TEXT NOT NULL,
  promoted INTEGER NOT NULL,
  reason TEXT NOT NULL,
  verdict TEXT NOT NULL DEFAULT '{}',
  provenance TEXT NOT NULL DEFAULT '{}',
  target TEXT NOT NULL,
  PRIMARY KEY (model_id, version),
  FOREIGN KEY (model_id, base) REFERENCES bases (model_id, base)
) STRICT, WITHOUT ROWID;

CREATE INDEX versions_by_base ON versions (model_id, base);

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

-- The versions that `latest` has named, oldest first; a rollback removes the newest.
CREATE TABLE promotions (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  model_id INTEGER NOT NULL,
  version INTEGER NOT NULL,
  promoted_at TEXT NOT NULL,
  FOREIGN KEY (model_id, version) REFERENCES versions (model_id, version) ON DELETE CASCADE
) STRICT;

CREATE INDEX promotions_by_version ON promotions (model_id, version);

-- sha256: null for a variant that was refused; the reason says why.
CREATE TABLE variants (
  model_id INTEGER NOT NULL,
  version INTEGER NOT NULL,
  variant TEXT NOT NULL,
  sha256 TEXT REFERENCES files (sha256),
  method TEXT NOT NULL,
  metrics TEXT NOT NULL,
  verdict TEXT NOT NULL,
  reason TEXT NOT NULL,
  created_at TEXT NOT NULL,
  PRIMARY KEY (model_id, version, variant),
  FOREIGN KEY (model_id, version) REFERENCES versions (model_id, version) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE INDEX variants_by_file ON variants (sha256);

-- The frozen validation samples that every new version is also measured on.
CREATE TABLE reference_samples (
  sample_id INTEGER PRIMARY KEY REFERENCES samples (id) ON DELETE CASCADE,
  model_id INTEGER NOT NULL REFERENCES models (id) ON DELETE CASCADE
) STRICT;

CREATE INDEX reference_samples_by_model ON reference_samples (model_id);

-- One row. settings: null while the device's defaults apply. paused: all training, manually.
CREATE TABLE policy (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  settings TEXT,
  snoozed_until TEXT,
  paused INTEGER NOT NULL DEFAULT 0
) STRICT;

INSERT INTO policy (id) VALUES (1);

-- Seconds of training between two local midnights; day: its date.
CREATE TABLE training_days (
  day TEXT PRIMARY KEY,
  seconds REAL NOT NULL
) STRICT, WITHOUT ROWID;

-- labelled: number of labelled samples when it last fired or was reset. outcome: of its last try.
CREATE TABLE triggers (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  model_id INTEGER NOT NULL REFERENCES models (id) ON DELETE CASCADE,
  name TEXT NOT NULL,
  rule TEXT NOT NULL,
  hyperparameters TEXT NOT NULL,
  priority INTEGER NOT NULL,
  enabled INTEGER NOT NULL,
  created_at TEXT NOT NULL,
  labelled INTEGER NOT NULL,
  tried_at TEXT,
  fired_at TEXT,
  job_id INTEGER,
  outcome TEXT NOT NULL DEFAULT ''
) STRICT;

CREATE INDEX triggers_by_model ON triggers (model_id);

CREATE TABLE events (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  type TEXT NOT NULL,
  model TEXT,
  data TEXT NOT NULL,
  created_at TEXT NOT NULL
) STRICT;

-- The keys of duplicates, in addition to that of the sample itself.
CREATE TABLE sample_keys (
  model_id INTEGER NOT NULL REFERENCES models (id) ON DELETE CASCADE,
  key TEXT NOT NULL,
  sample_id INTEGER NOT NULL REFERENCES samples (id) ON DELETE CASCADE,
  PRIMARY KEY (model_id, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX sample_keys_by_sample ON sample_keys (sample_id);

-- Files whose bytes are not those that were stored, and when that was found.
CREATE TABLE damaged_files (
  sha256 TEXT PRIMARY KEY REFERENCES files (sha256) ON DELETE CASCADE,
  reason TEXT NOT NULL,
  found_at TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- sha256: of the secret. models: a JSON list, null for all. used_on: the UTC day of used_bytes.
-- session_of: the principal who signed in to the console with it; null for other tokens.
CREATE TABLE tokens (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL,
  sha256 BLOB NOT NULL UNIQUE CHECK (length(sha256) = 32),
  scopes TEXT NOT NULL,
  models TEXT,
  limits TEXT NOT NULL,
  created_at TEXT NOT NULL,
  last_used_at TEXT,
  expires_at TEXT,
  revoked_at TEXT,
  used_on TEXT,
  used_bytes INTEGER NOT NULL DEFAULT 0,
  session_of TEXT
) STRICT;

-- path: without its query. code: of a refusal. count: requests that the entry covers. previous: the
-- hash of the entry before, hash: its own (storage/database/audit_chain.py).
CREATE TABLE audit (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  at TEXT NOT NULL,
  kind TEXT NOT NULL,
  who TEXT NOT NULL,
  address TEXT NOT NULL,
  action TEXT NOT NULL,
  path TEXT NOT NULL,
  model TEXT,
  code TEXT,
  count INTEGER NOT NULL DEFAULT 1,
  facts TEXT,
  previous BLOB NOT NULL CHECK (length(previous) = 32),
  hash BLOB NOT NULL CHECK (length(hash) = 32)
) STRICT;

CREATE INDEX audit_by_who ON audit (kind, who);

CREATE TRIGGER audit_is_never_changed BEFORE UPDATE ON audit BEGIN
  SELECT RAISE(ABORT, 'entries of the audit log are never changed');
END;

-- round: the server's number. terms: clipping, noise, compression, as applied. outcome: sizes, norms.
CREATE TABLE rounds (
  job_id INTEGER PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE,
  model_id INTEGER NOT NULL REFERENCES models (id) ON DELETE CASCADE,
  federation TEXT NOT NULL,
  round INTEGER NOT NULL,
  terms TEXT NOT NULL,
  deadline TEXT,
  outcome TEXT NOT NULL DEFAULT '{}'
) STRICT;

-- Files that jobs of federated training were sent or have made.
CREATE TABLE job_files (
  job_id INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
  role TEXT NOT NULL CHECK (role IN ('parameters', 'update', 'residual')),
  sha256 TEXT NOT NULL REFERENCES files (sha256), PRIMARY KEY (job_id, role)
) STRICT, WITHOUT ROWID;

CREATE INDEX job_files_by_file ON job_files (sha256);

-- One row per minute of a day. eligible: whether jobs were allowed throughout. signals: JSON.
CREATE TABLE device_history (
  at TEXT PRIMARY KEY,
  eligible INTEGER NOT NULL,
  trained_s REAL NOT NULL,
  signals TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- The last lines that a job's children wrote on stderr, as a JSON list.
CREATE TABLE job_logs (
  job_id INTEGER PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE,
  lines TEXT NOT NULL
) STRICT;

-- All points of an ended job's curves: [step, epoch, values by name] each, JSON in zlib.
CREATE TABLE curves (
  job_id INTEGER PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE,
  points BLOB NOT NULL
) STRICT;

-- One row. identity: by which a share of all devices is drawn (service/follow/share.py).
CREATE TABLE device (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  identity TEXT NOT NULL
) STRICT;

INSERT INTO device (id, identity) VALUES (1, lower(hex(randomblob(16))));

-- Where new bases of a model come from. set_at: when the terms were set. progress: what came of it.
CREATE TABLE follows (
  model_id INTEGER PRIMARY KEY REFERENCES models (id) ON DELETE CASCADE,
  terms TEXT NOT NULL,
  created_at TEXT NOT NULL,
  set_at TEXT NOT NULL,
  progress TEXT NOT NULL DEFAULT '{}'
) STRICT;
