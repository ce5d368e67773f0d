"""Progress on stderr: a bar on a terminal, a line every ten seconds elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO

import click

from cli.output import echo_text
from service.logs import visible

Advance = Callable[[int], None]
LINE_INTERVAL_S = 10.0
CHUNK_BYTES = 64 * 1024


class MeteredFile:
    """A file that reports how much of it was read."""

    def __init__(self, file: IO[bytes], advance: Advance) -> None:
        self._file = file
        self._advance = advance
        self.fileno = file.fileno

    def __iter__(self) -> Iterator[bytes]:
        """Its chunks: httpx sends what it can iterate, by `read`."""
        return iter(lambda: self.read(CHUNK_BYTES), b"")

    def read(self, size: int = -1) -> bytes:
        """Like the file's method."""
        data = self._file.read(size)
        self._advance(len(data))
        return data


class Lines:
    """Prints progress as a line, at most every ten seconds: for logs and pipes."""

    def __init__(
        self, length: int, label: str, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._length, self._label, self._clock = length, label, clock
        self._reached = 0
        self._told_at = clock()
        self._told = ""

    def __call__(self, amount: int) -> None:
        """Advance by this."""
        self._reached += amount
        if self._length and self._clock() - self._told_at >= LINE_INTERVAL_S:
            self._told_at = self._clock()
            told, self._told = self._told, f"{self._label}: {self._reached / self._length:.0%}"
            if self._told != told:
                echo_text(self._told, err=True)


@contextmanager
def bar(length: int, label: str, *, show: bool = True) -> Iterator[Advance]:
    """A bar of `length` units, advanced by calls of the value.

    Lines if stderr is not a terminal.
    """
    if not show:
        yield _ignore
        return
    if not sys.stderr.isatty():
        yield Lines(length, label)
        return
    label = visible(label)
    # width 0: as wide as the terminal; a bar that is wider would fill it with lines.
    with click.progressbar(length=length, label=label, file=sys.stderr, width=0) as moving:
        yield moving.update


def _ignore(amount: int) -> None:
    """Progress is not shown."""
