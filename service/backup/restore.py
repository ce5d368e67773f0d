"""`honed restore`: replaces the data folder with a backup, all or nothing, without a daemon."""

from __future__ import annotations

import os
import shutil
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import IO

from msgspec import Struct
from msgspec.structs import replace

from service.backup.backup import CHUNK_BYTES
from service.backup.contents import BackupFile, Contents, wrong
from service.zips import ZIP_FAULTS
from storage.backup import swap
from storage.backup.copies import check_copy
from storage.backup.foreign import foreign_contents
from storage.backup.reconciling import Lost
from storage.backup.snapshot import DATABASE
from storage.database.schema import KNOWN
from storage.disk.durable import create_private, file_faults, make_folder, sync_file, sync_folder
from storage.disk.lock import DataDirLock
from storage.disk.permissions import require_own
from storage.errors import AlreadyExists, StorageFull, UnknownSchema, file_size
from storage.records.jobs import JobState
from storage.store import Store

UNTOLD = "its database names files that are not in it: {lost}"

Advance = Callable[[int], None]


class Restored(Struct, frozen=True):
    """What was restored. tokens: those that are neither revoked nor expired.

    lost: rows deleted because the backup's manifest lists their files as missing or damaged.
    set_aside: where the previous data were moved.
    """

    contents: Contents
    models: int
    samples: int
    interrupted_jobs: int
    tokens: int
    lost: Lost
    set_aside: Path | None = None


def restore(
    archive: zipfile.ZipFile,
    contents: Contents,
    data_dir: Path,
    *,
    set_aside: bool,
    now: datetime,
    advance: Advance,
) -> Restored:
    """Verify every byte of a backup, then put it in place.

    set_aside: whether existing data may be moved away. advance: called with the number of bytes
    read. Raises InvalidInput, AlreadyExists, DataDirLocked, UnknownSchema, StorageFull,
    StorageBroken; then the existing data are unchanged.
    """
    data_dir = data_dir.absolute()
    with _alone(data_dir):
        swap.finish(data_dir)
        if swap.holds_data(data_dir) and not set_aside:
            raise AlreadyExists(
                f"{data_dir} holds data already; --replace moves them away first, or choose "
                "another --data-dir"
            )
        _require_room(data_dir, contents)
        folder = swap.begin(data_dir)
        try:
            _unpack(archive, contents, folder, advance=advance)
            restored = _prove(folder, contents, now)
            _give_to_owner(folder, data_dir)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return replace(restored, set_aside=swap.swap_in(data_dir, now=now))


@contextmanager
def _alone(data_dir: Path) -> Iterator[None]:
    """Hold the data folder's lock. If the block fails, the record of the last shutdown stays."""
    with file_faults(f"cannot open the data folder {data_dir}"):
        make_folder(data_dir, parents=True)
        require_own(data_dir)
        lock = DataDirLock(data_dir / "hone.lock")
    clean = not lock.unclean
    try:
        yield
        clean = True
    finally:
        lock.release(clean=clean)


def _require_room(data_dir: Path, contents: Contents) -> None:
    with file_faults("cannot ask the disk for its free space"):
        free = shutil.disk_usage(data_dir).free
    if free < contents.size_bytes:
        raise StorageFull(
            f"the backup unpacks to {file_size(contents.size_bytes)}; the disk of {data_dir} has "
            f"{file_size(free)} free: make room, or choose another --data-dir"
        )


def _unpack(
    archive: zipfile.ZipFile, contents: Contents, folder: Path, *, advance: Advance
) -> None:
    folders = {folder}
    for entry in contents.entries:
        if entry.name in contents.damaged:
            continue
        path = folder / entry.name
        with file_faults(f"cannot unpack {entry.name}"):
            make_folder(path.parent, parents=True)
            folders.add(path.parent)
            with create_private(path) as target:
                _copy(archive, entry, target, advance=advance)
                sync_file(target)
    with file_faults("cannot unpack the backup"):
        for place in folders:
            sync_folder(place)


def _copy(
    archive: zipfile.ZipFile, entry: BackupFile, target: IO[bytes], *, advance: Advance
) -> None:
    digest = sha256()
    try:
        with archive.open(entry.name) as source:
            while chunk := source.read(CHUNK_BYTES):
                digest.update(chunk)
                target.write(chunk)
                advance(len(chunk))
    except ZIP_FAULTS as error:
        raise wrong(f"/{entry.name}", f"it is damaged: {error}") from error
    is_named_so = entry.name.startswith("files/")
    expected = {entry.sha256, Path(entry.name).name} if is_named_so else {entry.sha256}
    if expected != {digest.hexdigest()}:
        raise wrong(f"/{entry.name}", "its SHA-256 is not the one that the manifest gives")


def _prove(folder: Path, contents: Contents, now: datetime) -> Restored:
    """Open what was unpacked as a daemon would, and count what is in it."""
    if contents.schema not in KNOWN:
        raise UnknownSchema(
            f"the backup's database has the schema {contents.schema!r}, which this Hone does not "
            f"know; restore it with honed {contents.honed}, which wrote it, and upgrade then"
        )
    # Before anything evaluates its constraints, as the check for damage does.
    if (foreign := foreign_contents(folder / DATABASE)) is not None:
        raise wrong(f"/{DATABASE}", foreign)
    check_copy(folder / DATABASE)
    try:
        return _count(folder, contents, now)
    except (ValueError, KeyError, TypeError) as error:
        raise wrong(f"/{DATABASE}", f"Hone did not write its rows: {error!r}") from error


def _count(folder: Path, contents: Contents, now: datetime) -> Restored:
    store = Store.open(folder, is_partial=True)
    try:
        lost = store.lost
        if lost != Lost() and not (contents.missing or contents.damaged):
            raise wrong(f"/{DATABASE}", UNTOLD.format(lost=lost))
        counts = [model.samples for model in store.models.list()]
        samples = sum(
            count.train + count.validation + count.base + count.unlabelled for count in counts
        )
        interrupted = store.jobs.counts().get(JobState.RUNNING, 0)
        tokens = sum(
            token.revoked_at is None and (token.expires_at is None or token.expires_at > now)
            for token in store.tokens.list()
        )
    finally:
        store.close()
    return Restored(contents, len(counts), samples, interrupted, tokens, lost)


def _give_to_owner(folder: Path, data_dir: Path) -> None:
    """If root restores, give the files to the daemon's user."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return
    owner = data_dir.stat()
    with file_faults("cannot give what was unpacked to the data folder's owner"):
        for path in (folder, *folder.rglob("*")):
            os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)
