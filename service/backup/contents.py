"""A backup's manifest, checked against its entries; nothing is unpacked here."""

from __future__ import annotations

import re
import stat
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from msgspec import DecodeError, Meta, Struct, field

from service.backup.backup import FORMAT, MANIFEST, VERSION
from service.errors import InvalidInput
from service.zips import ZIP_FAULTS
from storage.backup.snapshot import DATABASE
from storage.database.codec import decode
from storage.errors import Problem

MAX_MANIFEST_BYTES = 64 * 2**20
_NAME = re.compile(
    r"hone\.db|files/([0-9a-f]{2})/\1[0-9a-f]{62}|packs/[1-9]\d{0,17}/[1-9]\d{0,17}\.pack", re.ASCII
)


class _Kind(Struct):
    """What a manifest says of itself; the rest is read once that is known."""

    format: str = ""
    version: int = 0


class BackupFile(Struct, frozen=True):
    """A file of the backup, with its expected size and digest."""

    name: str
    size_bytes: Annotated[int, Meta(ge=0)]
    sha256: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


class Contents(Struct, frozen=True):
    """missing: files that rows named but that did not exist. damaged: those with wrong bytes."""

    honed: str
    schema: str
    created_at: str
    entries: tuple[BackupFile, ...] = field(name="files")
    missing: tuple[str, ...]
    damaged: tuple[str, ...]

    @property
    def size_bytes(self) -> int:
        """Size of all entries together."""
        return sum(entry.size_bytes for entry in self.entries)


def read_contents(archive: zipfile.ZipFile, *, archive_bytes: int) -> Contents:
    """Raises InvalidInput with everything about the list of entries that is wrong."""
    contents = _manifest(archive)
    problems = list(_complaints(archive, contents, archive_bytes=archive_bytes))
    if problems:
        raise InvalidInput("the backup cannot be restored", problems=problems)
    return contents


def open_backup(path: Path) -> zipfile.ZipFile:
    """Raises InvalidInput if it is not a complete zip."""
    try:
        return zipfile.ZipFile(path)
    except ZIP_FAULTS as error:
        raise wrong("", f"{path} is no whole zip: {error}") from error
    except OSError as error:
        raise wrong("", f"cannot read {path}: {error.strerror}") from error


def _complaints(
    archive: zipfile.ZipFile, contents: Contents, *, archive_bytes: int
) -> Iterator[Problem]:
    expected = {entry.name: entry for entry in contents.entries}
    infos = [info for info in archive.infolist() if info.filename != MANIFEST]
    names = Counter(info.filename for info in infos)
    listed = Counter(entry.name for entry in contents.entries)
    for name, count in (names | listed).items():
        if count > 1:
            yield Problem(f"/{name}", "it is there twice")
    for name in sorted(expected.keys() - names.keys()):
        yield Problem(f"/{name}", "the manifest lists it, and it is not there")
    for info in infos:
        if (complaint := _complaint(info, expected.get(info.filename))) is not None:
            yield Problem(f"/{info.orig_filename}", complaint)
    if DATABASE not in expected:
        yield Problem(f"/{MANIFEST}/files", f"{DATABASE} is not listed")
    if sum(info.file_size for info in infos) > archive_bytes:
        yield Problem("", "its entries have more bytes than it has: they overlap")


def _complaint(info: zipfile.ZipInfo, expected: BackupFile | None) -> str | None:
    if not _NAME.fullmatch(info.orig_filename):
        return "no file of a backup has this name"
    if expected is None:
        return "the manifest does not list it"
    if info.flag_bits & 1 or info.compress_type != zipfile.ZIP_STORED:
        return "it is encrypted or compressed; entries of a backup are stored"
    if stat.S_IFMT(info.external_attr >> 16) not in (0, stat.S_IFREG):
        return "it is no plain file"
    if not info.file_size == info.compress_size == expected.size_bytes:
        return f"it has {info.file_size} bytes, the manifest says {expected.size_bytes}"
    return None


def _manifest(archive: zipfile.ZipFile) -> Contents:
    try:
        info = archive.getinfo(MANIFEST)
        if info.file_size > MAX_MANIFEST_BYTES:
            raise wrong(f"/{MANIFEST}", f"it has {info.file_size} bytes; that is no manifest")
        text = archive.read(info)
        kind = decode(text, _Kind)
    except KeyError as error:
        raise wrong(f"/{MANIFEST}", "it is missing; this is no backup of Hone") from error
    except (*ZIP_FAULTS, OSError) as error:
        raise wrong(f"/{MANIFEST}", f"it cannot be read: {error}") from error
    if kind.format != FORMAT:
        raise wrong(f"/{MANIFEST}", f"its format is not {FORMAT!r}; this is no backup of Hone")
    if kind.version != VERSION:
        raise wrong(f"/{MANIFEST}", f"it has version {kind.version}, this Hone reads {VERSION}")
    try:
        return decode(text, Contents)
    except (DecodeError, UnicodeDecodeError) as error:
        raise wrong(f"/{MANIFEST}", f"it is not one that Hone wrote: {error}") from error


def wrong(pointer: str, detail: str) -> InvalidInput:
    """The error for an archive that is no backup, or not a whole one."""
    return InvalidInput.at(pointer, detail, title="the backup cannot be restored")
