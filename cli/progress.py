"""Progress bars, on stderr and only where a person is looking."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO

import click

Advance = Callable[[int], None]


class Watched:
    """A file that tells how much of it was read."""

    def __init__(self, file: IO[bytes], advance: Advance) -> None:
        self._file = file
        self._advance = advance
        self.fileno = file.fileno

    def read(self, size: int = -1) -> bytes:
        """Like the file's own."""
        data = self._file.read(size)
        self._advance(len(data))
        return data


@contextmanager
def bar(length: int, label: str, *, show: bool = True) -> Iterator[Advance]:
    """A bar of `length` units; the value moves it on. Silent if stderr is no terminal."""
    if not (show and sys.stderr.isatty()):
        yield _ignore
        return
    with click.progressbar(length=length, label=label, file=sys.stderr, width=30) as moving:
        yield moving.update


def _ignore(amount: int) -> None:
    """Nobody is looking."""
