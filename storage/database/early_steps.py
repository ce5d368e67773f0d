"""The schema's first migrations, up to damaged files, as SQL; the rest: storage.database.steps."""

from __future__ import annotations

GATE = """
ALTER TABLE models ADD COLUMN gate TEXT NOT NULL DEFAULT '{}';
ALTER TABLE models ADD COLUMN retention TEXT NOT NULL DEFAULT '{}';
ALTER TABLE models ADD COLUMN held_since TEXT;
ALTER TABLE models ADD COLUMN reference_frozen_at TEXT;

ALTER TABLE versions ADD COLUMN verdict TEXT NOT NULL DEFAULT '{}';
ALTER TABLE versions ADD COLUMN provenance TEXT NOT NULL DEFAULT '{}';

CREATE TABLE promotions (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  model_id INTEGER NOT NULL,
  version INTEGER NOT NULL,
  promoted_at TEXT NOT NULL,
  FOREIGN KEY (model_id, version) REFERENCES versions (model_id, version) ON DELETE CASCADE
) STRICT;

CREATE INDEX promotions_by_version ON promotions (model_id, version);

INSERT INTO promotions (model_id, version, promoted_at)
SELECT model_id, version, created_at FROM versions WHERE promoted ORDER BY model_id, version;

INSERT INTO promotions (model_id, version, promoted_at)
SELECT model_id, version, created_at FROM aliases JOIN versions USING (model_id, version)
WHERE alias = 'latest' AND version <> (
  SELECT max(version) FROM versions AS others
  WHERE others.model_id = aliases.model_id AND others.promoted
);

CREATE TABLE variants (
  model_id INTEGER NOT NULL,
  version INTEGER NOT NULL,
  variant TEXT NOT NULL CHECK (variant IN ('int8', 'ort')),
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

CREATE TABLE reference_samples (
  sample_id INTEGER PRIMARY KEY REFERENCES samples (id) ON DELETE CASCADE,
  model_id INTEGER NOT NULL REFERENCES models (id) ON DELETE CASCADE
) STRICT;

CREATE INDEX reference_samples_by_model ON reference_samples (model_id);
"""

POLICY_AND_TRIGGERS = """
ALTER TABLE jobs ADD COLUMN priority INTEGER NOT NULL DEFAULT 0;

CREATE TABLE policy (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  settings TEXT,
  snoozed_until TEXT,
  paused INTEGER NOT NULL DEFAULT 0
) STRICT;

INSERT INTO policy (id) VALUES (1);

CREATE TABLE training_days (
  day TEXT PRIMARY KEY,
  seconds REAL NOT NULL
) STRICT, WITHOUT ROWID;

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
"""

SAMPLES = (
    "ALTER TABLE models ADD COLUMN preprocess TEXT NOT NULL DEFAULT '[]'",
    "ALTER TABLE models ADD COLUMN quota TEXT NOT NULL DEFAULT '{}'",
    "ALTER TABLE models ADD COLUMN sample_bytes INTEGER NOT NULL DEFAULT 0",
    """
    UPDATE models SET sample_bytes =
      (SELECT coalesce(sum(length), 0) FROM samples WHERE model_id = models.id)
    """,
    "ALTER TABLE samples ADD COLUMN pinned INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE samples ADD COLUMN quarantine TEXT",
    "CREATE INDEX samples_pinned ON samples (model_id) WHERE pinned",
    "CREATE INDEX samples_quarantined ON samples (model_id) WHERE quarantine IS NOT NULL",
    "CREATE INDEX samples_validation ON samples (model_id) WHERE split = 'validation'",
    """
    CREATE INDEX samples_trainable ON samples (model_id, split)
    WHERE label IS NOT NULL AND quarantine IS NULL
    """,
    """
    CREATE TRIGGER samples_unweighed AFTER DELETE ON samples BEGIN
      UPDATE models SET sample_bytes = sample_bytes - OLD.length WHERE id = OLD.model_id;
    END
    """,
    "ALTER TABLE packs ADD COLUMN erased_bytes INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE erasures ADD COLUMN sample_id INTEGER NOT NULL DEFAULT 0",
    """
    CREATE TABLE job_samples (
      job_id INTEGER PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE,
      ids BLOB NOT NULL
    ) STRICT
    """,
    """
    CREATE TABLE forgettings (
      job_id INTEGER PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE,
      ids BLOB NOT NULL
    ) STRICT
    """,
)

TWINS_AND_DAMAGE = (
    "CREATE INDEX samples_by_content ON samples (model_id, substr(sha256, 1, 8))",
    # The keys of duplicates, in addition to that of the sample itself.
    """
    CREATE TABLE sample_keys (
      model_id INTEGER NOT NULL REFERENCES models (id) ON DELETE CASCADE,
      key TEXT NOT NULL,
      sample_id INTEGER NOT NULL REFERENCES samples (id) ON DELETE CASCADE,
      PRIMARY KEY (model_id, key)
    ) STRICT, WITHOUT ROWID
    """,
    "CREATE INDEX sample_keys_by_sample ON sample_keys (sample_id)",
    "ALTER TABLE models ADD COLUMN keeps_duplicates INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE models ADD COLUMN features TEXT",
    # Files whose bytes are not those that were stored, and when that was found.
    """
    CREATE TABLE damaged_files (
      sha256 TEXT PRIMARY KEY REFERENCES files (sha256) ON DELETE CASCADE,
      reason TEXT NOT NULL,
      found_at TEXT NOT NULL
    ) STRICT, WITHOUT ROWID
    """,
    # The code defines which variants exist: a new one does not change the schema.
    """
    CREATE TABLE variants_of_versions (
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
    ) STRICT, WITHOUT ROWID
    """,
    "INSERT INTO variants_of_versions SELECT * FROM variants",
    "DROP TABLE variants",
    "ALTER TABLE variants_of_versions RENAME TO variants",
    "CREATE INDEX variants_by_file ON variants (sha256)",
)
