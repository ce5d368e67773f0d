"""The schema's later migrations, as SQL, and the names of all of them.

A migration that has been released never changes; a change is a new one.
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
    "m015_federation",
    "m016_assembled_files",
    "m017_device_history_and_job_logs",
    "m018_curves",
)
"""Names of the functions of `storage.database.migrations`, in order."""

ENGINES = (
    # Until then there was only one.
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
    # Only the CHECK of the split changes, no row; SQLite has no other way without copying the rows:
    # https://www.sqlite.org/lang_altertable.html#otheralter
    "PRAGMA writable_schema = ON",
    """
    UPDATE sqlite_schema SET sql = replace(
      sql, 'split IN (''train'', ''validation'')', 'split IN (''train'', ''validation'', ''base'')'
    ) WHERE type = 'table' AND name = 'samples'
    """,
    "PRAGMA writable_schema = RESET",
    # The split that a sample had before it was taken into the base set, to be restored later.
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

ASSEMBLED_FILES = (
    """
    CREATE TABLE assembled_files (
      sha256 TEXT PRIMARY KEY REFERENCES files ON DELETE CASCADE,
      base TEXT NOT NULL REFERENCES files,
      recipe TEXT NOT NULL REFERENCES files
    ) STRICT, WITHOUT ROWID
    """,
    "CREATE INDEX assembled_files_by_base ON assembled_files (base)",
    "CREATE INDEX assembled_files_by_recipe ON assembled_files (recipe)",
)

DEVICE_HISTORY_AND_JOB_LOGS = (
    """
    CREATE TABLE device_history (
      at TEXT PRIMARY KEY,
      eligible INTEGER NOT NULL,
      trained_s REAL NOT NULL,
      signals TEXT NOT NULL
    ) STRICT, WITHOUT ROWID
    """,
    """
    CREATE TABLE job_logs (
      job_id INTEGER PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE,
      lines TEXT NOT NULL
    ) STRICT
    """,
)

CURVES = """
CREATE TABLE curves (
  job_id INTEGER PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE,
  points BLOB NOT NULL
) STRICT
"""
