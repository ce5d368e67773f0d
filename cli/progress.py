"""Progress bars, on stderr and only where a person is looking."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

Advance = Callable[[int], None]


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
