"""The root of Hone's errors, and those that storage raises.

Each error has a stable `code`; `api/errors.py` maps codes to HTTP status. Messages say
what was wrong, where, and what would be right.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar

from msgspec import Struct


class Problem(Struct, frozen=True):
    """One fault of an input: where it is (RFC 6901 JSON pointer) and how to fix it."""

    pointer: str
    detail: str


def pointer(*parts: object) -> str:
    """RFC 6901: `/` and `~` inside a part are escaped."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)


class HoneError(Exception):
    """Root of every error that Hone raises on purpose."""

    code: ClassVar[str]

    def __init_subclass__(cls) -> None:
        """Its code is its name; one that narrows another error has that one's code."""
        if HoneError in cls.__bases__:
            cls.code = re.sub("(?<!^)(?=[A-Z])", "_", cls.__name__).lower()

    def __init__(self, detail: str, *, problems: Sequence[Problem] = ()) -> None:
        super().__init__(detail)
        self.detail = detail
        self.problems = tuple(problems)


def in_full(error: HoneError) -> str:
    """An error's message with its problems that it does not tell itself, in one line."""
    untold = [problem for problem in error.problems if problem.detail != error.detail]
    places = [f"{problem.pointer}: {problem.detail}" for problem in untold]
    return "; ".join([error.detail, *places])


def in_words(error: BaseException) -> str:
    """An error's message for people: an error of the system without its number and quotes."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)


def counted(number: int, noun: str) -> str:
    """`1 sample`, `1,000 samples`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def file_size(size_bytes: int) -> str:
    """`40.0 KiB`."""
    size = float(size_bytes)
    for unit in ("bytes", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"


class NotFound(HoneError):
    """The named thing does not exist."""


class AlreadyExists(HoneError):
    """A thing with this name exists already."""


class StateConflict(HoneError):
    """The thing is in a state that does not allow the change, or was changed first."""


class InUse(HoneError):
    """The thing cannot be removed while another refers to it."""


class Busy(HoneError):
    """Something else goes first; the same request may succeed in a moment."""


class StorageFull(HoneError):
    """The disk or a quota is full; nothing of the request was stored."""


class DiskFull(StorageFull):
    """The database found no room on the disk."""


class StorageBroken(HoneError):
    """The database or a file failed a check, or the disk failed; the daemon must restart."""


class ReadOnlyDisk(StorageBroken):
    """The file system takes no more writes, as after an error of its disk."""


class DatabaseDamaged(StorageBroken):
    """The content of the database is damaged; the disk may be intact."""


class Damaged(HoneError):
    """Bytes are not those that were stored; intact data remain usable."""


class DataDirLocked(HoneError):
    """Another daemon owns the data folder."""


class UnknownSchema(HoneError):
    """The database has migrations that this Hone does not know."""
