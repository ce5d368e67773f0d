"""The fourth step of the schema: preprocessing, quotas, quarantine, and what jobs have seen."""

from __future__ import annotations

STATEMENTS = (
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
