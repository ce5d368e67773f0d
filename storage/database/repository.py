"""What all repositories share: the one that writes, those that read, and methods that write."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from storage.blobs.files import FileStore
from storage.database.connection import Readers
from storage.database.transaction import Transaction
from storage.database.writer import Writer

_P = ParamSpec("_P")
_R = TypeVar("_R")


class _Writes(Protocol):
    _writer: Writer


_Self = TypeVar("_Self", bound=_Writes)


class Repository:
    """Rows that one thread writes and several read."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers


class FileRepository(Repository):
    """Rows that name files."""

    def __init__(self, writer: Writer, readers: Readers, *, files: FileStore) -> None:
        super().__init__(writer, readers)
        self._files = files


def writes(
    method: Callable[Concatenate[_Self, Transaction, _P], _R],
) -> Callable[Concatenate[_Self, _P], _R]:
    """A method that is one write: callers leave its transaction out, and wait for its commit."""

    @wraps(method)
    def write(self: _Self, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        return self._writer.write(lambda transaction: method(self, transaction, *args, **kwargs))

    return write
