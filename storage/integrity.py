"""Damage: bytes that differ from what was stored are found on reading, reported, set aside.

A damaged sample is quarantined, so that jobs leave it out. A damaged file is remembered; aliases of
its versions move to the newest promoted version that is intact, and jobs continue from an earlier
checkpoint.
"""

from __future__ import annotations

import hashlib
from functools import partial
from pathlib import Path

from msgspec import Struct, field

from storage.blobs.files import FileStore
from storage.blobs.packs import Packs, size_of
from storage.database.codec import dump_time, load
from storage.database.connection import Readers, sqlite3
from storage.database.repository import Repository, writes
from storage.database.transaction import Transaction
from storage.database.writer import Writer
from storage.errors import Damaged, NotFound, StorageBroken
from storage.records.samples import DAMAGED, LOST
from storage.records.versions import Checkpoint, Version
from storage.tables.model_rows import model_name
from storage.versions.aliases import LATEST, move_alias
from storage.versions.checkpoints import Checkpoints
from storage.versions.version_rows import find_version
from storage.versions.versions import Versions

_SET_PART_ASIDE = f"""
UPDATE samples SET quarantine = ? WHERE model_id = ? AND pack = ? AND offset + length > ?
  AND coalesce(quarantine, '') NOT LIKE '{DAMAGED}%'
"""  # noqa: S608 - our own
_DAMAGED_SAMPLES = f"""
SELECT models.name AS model, count(*) AS samples FROM samples JOIN models ON models.id = model_id
WHERE quarantine IS NOT NULL AND quarantine LIKE '{DAMAGED}%' GROUP BY model_id ORDER BY models.name
"""  # noqa: S608 - our own
_DAMAGED_FILES = """
SELECT sha256, reason,
  (SELECT json_group_array(models.name || ' version ' || version) FROM versions
   JOIN models ON models.id = versions.model_id WHERE versions.sha256 = damaged_files.sha256)
    AS versions,
  (SELECT json_group_array('checkpoint ' || id) FROM checkpoints
   WHERE checkpoints.sha256 = damaged_files.sha256) AS checkpoints,
  (SELECT json_group_array(models.name || ' version ' || version || ' as ' || variant)
   FROM variants JOIN models ON models.id = variants.model_id
   WHERE variants.sha256 = damaged_files.sha256) AS variants,
  (SELECT json_group_array(models.name || ' ' || role) FROM base_files
   JOIN models ON models.id = base_files.model_id
   WHERE base_files.sha256 = damaged_files.sha256) AS artifacts,
  (SELECT json_group_array(role || ' of job ' || job_id) FROM job_files
   WHERE job_files.sha256 = damaged_files.sha256) AS job_files
FROM damaged_files ORDER BY sha256
"""
_NAMED = ("versions", "checkpoints", "variants", "artifacts", "job_files")
_ALIASES = """
SELECT aliases.model_id, alias FROM aliases JOIN versions USING (model_id, version)
WHERE sha256 = ?
"""
_NEWEST_WHOLE = """
SELECT version FROM promotions JOIN versions USING (model_id, version)
WHERE model_id = ? AND sha256 NOT IN (SELECT sha256 FROM damaged_files)
ORDER BY promotions.id DESC LIMIT 1
"""


class Damage(Struct, frozen=True):
    """Known damage. samples: counts by model. files: SHA-256 → what they are."""

    samples: dict[str, int] = field(default_factory=dict)
    files: dict[str, list[str]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.samples or self.files)


class Integrity(Repository):
    """Compares data with their digests when they are read."""

    def __init__(
        self,
        writer: Writer,
        readers: Readers,
        *,
        files: FileStore,
        packs: Packs,
        checkpoints: Checkpoints,
        versions: Versions,
    ) -> None:
        super().__init__(writer, readers)
        self._files = files
        self._packs = packs
        self._checkpoints = checkpoints
        self._versions = versions

    def known(self) -> Damage:
        """The damage found so far, without what was repaired since."""
        with self._readers.snapshot() as connection:
            samples = connection.execute(_DAMAGED_SAMPLES).fetchall()
            files = connection.execute(_DAMAGED_FILES).fetchall()
        return Damage(
            {row["model"]: row["samples"] for row in samples},
            {row["sha256"]: [name for what in _NAMED for name in load(row[what])] for row in files},
        )

    def file(self, sha256: str) -> Path:
        """The path of a file after its digest was checked; checked once, until it changes.

        Raises Damaged, after aliases of its versions have moved to an intact one; NotFound if the
        file has no row any more.
        """
        self._require(sha256)
        return self._files.whole_path(sha256)

    def _require(self, sha256: str) -> None:
        """Raises Damaged and NotFound, as `file` does."""
        try:
            if self._files.is_whole(sha256):
                return
            reason = "its bytes are not those that were stored"
        except FileNotFoundError:
            reason = "it is missing"
        except StorageBroken as error:
            reason = error.detail
        if not self._writer.write(partial(_note_file, sha256=sha256, reason=reason)):
            raise NotFound("the file was removed just now; ask for a newer version")
        raise Damaged(f"file {sha256}: {reason}; honed doctor tells what can be done")

    def file_again(self, sha256: str) -> Path:
        """As `file`, but checked again, for callers that have seen wrong bytes."""
        self._files.forget_checked(sha256)
        return self.file(sha256)

    def read(self, sha256: str) -> bytes:
        """The content of a small file, checked each time that it is read. Raises as `file` does."""
        while hashlib.sha256(content := self.file(sha256).read_bytes()).hexdigest() != sha256:
            self._files.forget_checked(sha256)  # it changed since it was checked
        return content

    def is_whole(self, sha256: str) -> bool:
        """Whether `file` would return it. Raises NotFound."""
        try:
            self._require(sha256)
        except Damaged:
            return False
        return True

    def latest(self, model_id: int) -> Version:
        """The version that `latest` names, once it has moved off damaged ones. Raises NotFound.

        If no version is intact, a damaged one.
        """
        while True:
            version = self._versions.by_alias(model_id, LATEST)
            if self.is_whole(version.file.sha256):
                return version
            if self._versions.by_alias(model_id, LATEST).version == version.version:
                return version

    def checkpoint(self, job_id: int, roles: tuple[str, ...]) -> Checkpoint | None:
        """The job's newest intact checkpoint of these roles, if any."""
        while (newest := self._checkpoints.latest_of(job_id, roles)) is not None:
            if self.is_whole(newest.file.sha256):
                return newest
        return None

    def checkpoint_of(self, version: Version | None) -> Checkpoint | None:
        """The checkpoint that a version was exported with or, if damaged, the intact one of the
        newest promoted version of its base before it; None for version 1, which has none.
        """
        while version is not None and version.checkpoint_id is not None:
            checkpoint = self._checkpoints.get(version.checkpoint_id)
            if self.is_whole(checkpoint.file.sha256):
                return checkpoint
            version = self._versions.promoted_before(
                version.model_id, version.base, version=version.version
            )
        return None

    def checkpoint_for(self, model_id: int, base: int) -> Checkpoint | None:
        """The checkpoint that a job of a base starts from: that of `latest`, or of the newest
        promoted version of the base, if `latest` is of another; None for the base itself.
        """
        latest = self.latest(model_id)
        of_base = latest.base == base
        return self.checkpoint_of(
            latest if of_base else self._versions.promoted_before(model_id, base)
        )

    def set_lost_samples_aside(self) -> None:
        """Quarantine samples in packs that are shorter than they were: their bytes are lost."""
        rows = self._readers.all("SELECT * FROM packs")
        for row in rows:
            if not self._packs.is_whole(row["model_id"], row["pack"], row["size_bytes"]):
                self._set_part_aside(row)

    @writes
    def _set_part_aside(self, transaction: Transaction, row: sqlite3.Row) -> None:
        key = (row["model_id"], row["pack"])
        size = size_of(self._packs.path(*key))
        samples = transaction.execute(_SET_PART_ASIDE, (LOST, *key, size)).rowcount
        if samples:
            told = {"pack": row["pack"], "samples": samples, "reason": LOST}
            transaction.event("storage.damaged", model_name(transaction, row["model_id"]), told)


def _note_file(transaction: Transaction, *, sha256: str, reason: str) -> bool:
    """Record a damaged file, and move aliases off its versions; False if it has no row."""
    if not transaction.execute("SELECT 1 FROM files WHERE sha256 = ?", (sha256,)).fetchone():
        return False
    row = (sha256, reason, dump_time(transaction.now))
    insert = "INSERT INTO damaged_files VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
    if not transaction.execute(insert, row).rowcount:
        return True
    transaction.event("storage.damaged", None, {"sha256": sha256, "reason": reason})
    for alias in transaction.execute(_ALIASES, (sha256,)).fetchall():
        whole = transaction.execute(_NEWEST_WHOLE, (alias["model_id"],)).fetchone()
        if whole is not None:
            version = find_version(transaction.connection, alias["model_id"], whole["version"])
            move_alias(transaction, version, alias["alias"])
    return True
