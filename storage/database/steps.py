"""The schema's steps after the first, as SQL, and the names of all of them.

A step that has been released never changes; a change is a new step.
"""

from __future__ import annotations

SET = "hone"
KNOWN = (
    "m001_initial",
    "m002_gate",
    "m003_policy_and_triggers",
    "m004_samples",
    "m005_twins_and_damage",
    "m006_engines",
    "m007_tokens",
    "m008_own_losses",
    "m009_sample_owners",
    "m010_sample_weights",
    "m011_audit",
    "m012_choices",
    "m013_classes",
    "m014_base_sets",
    "m016_federation",
)
"""Names of the functions of `storage.database.migrations`, in order."""

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
    # The keys of duplicates, beside that of the sample itself.
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
    # Files whose bytes are not those that were stored, and since when that is known.
    """
    CREATE TABLE damaged_files (
      sha256 TEXT PRIMARY KEY REFERENCES files (sha256) ON DELETE CASCADE,
      reason TEXT NOT NULL,
      found_at TEXT NOT NULL
    ) STRICT, WITHOUT ROWID
    """,
    # Which variants there are is the code's to say: a new one is no change of the schema.
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

ENGINES = (
    # Until then there was one.
    "ALTER TABLE models ADD COLUMN engine TEXT NOT NULL DEFAULT 'ort_training'",
    "ALTER TABLE jobs ADD COLUMN engine TEXT",
    "UPDATE jobs SET engine = 'onnxruntime-training 1.19.2' WHERE started_at IS NOT NULL",
    "ALTER TABLE checkpoints ADD COLUMN engine TEXT NOT NULL DEFAULT 'onnxruntime-training 1.19.2'",
)

CHOICES = "ALTER TABLE jobs ADD COLUMN choices TEXT NOT NULL DEFAULT '{}'"

CLASSES = (
    "ALTER TABLE versions ADD COLUMN target TEXT NOT NULL DEFAULT ''",
    """
    UPDATE versions SET target =
      (SELECT json_extract(signature, '$.target') FROM models WHERE id = model_id)
    """,
)

TOKENS = """
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
  used_bytes INTEGER NOT NULL DEFAULT 0
) STRICT
"""

OWN_LOSSES = ("ALTER TABLE models ADD COLUMN loss_output TEXT",)

SAMPLE_OWNERS = "ALTER TABLE samples ADD COLUMN owner TEXT"

SAMPLE_WEIGHTS = "ALTER TABLE samples ADD COLUMN weight REAL NOT NULL DEFAULT 1"

AUDIT = (
    """
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
      count INTEGER NOT NULL DEFAULT 1
    ) STRICT
    """,
    """
    CREATE TRIGGER audit_is_never_changed BEFORE UPDATE ON audit BEGIN
      SELECT RAISE(ABORT, 'entries of the audit log are never changed');
    END
    """,
)

BASE_SETS = (
    # Only the rule for the split changes, no row; SQLite has no other way that copies none:
    # https://www.sqlite.org/lang_altertable.html#otheralter
    "PRAGMA writable_schema = ON",
    """
    UPDATE sqlite_schema SET sql = replace(
      sql, 'split IN (''train'', ''validation'')', 'split IN (''train'', ''validation'', ''base'')'
    ) WHERE type = 'table' AND name = 'samples'
    """,
    "PRAGMA writable_schema = RESET",
    # The split that a sample had which was taken into the base set, where it is to go back.
    "ALTER TABLE samples ADD COLUMN split_before TEXT",
    "ALTER TABLE models ADD COLUMN base_set_at TEXT",
)

FEDERATION = (
    "ALTER TABLE models ADD COLUMN federation TEXT NOT NULL DEFAULT '{}'",
    "ALTER TABLE models ADD COLUMN privacy_spent TEXT NOT NULL DEFAULT '{}'",
    "ALTER TABLE audit ADD COLUMN facts TEXT",
    """
    CREATE TABLE rounds (
      job_id INTEGER PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE,
      model_id INTEGER NOT NULL REFERENCES models (id) ON DELETE CASCADE,
      federation TEXT NOT NULL,
      round INTEGER NOT NULL,
      terms TEXT NOT NULL,
      deadline TEXT,
      outcome TEXT NOT NULL DEFAULT '{}'
    ) STRICT
    """,
    """
    CREATE TABLE job_files (
      job_id INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
      role TEXT NOT NULL CHECK (role IN ('parameters', 'update', 'residual')),
      sha256 TEXT NOT NULL REFERENCES files (sha256), PRIMARY KEY (job_id, role)
    ) STRICT, WITHOUT ROWID
    """,
    "CREATE INDEX job_files_by_file ON job_files (sha256)",
)
