"""The demo's output: 80 columns, a line per step, digits drawn as the camera sees them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from cli.demo.digits import ASCII_SHADES, SHADES, drawing

if TYPE_CHECKING:
    from numpy.typing import NDArray

LABEL_WIDTH = 12
BAR_WIDTH = 40
GAP = "   "


def title(text: str) -> None:
    """The headline."""
    click.secho(f"\n  {text}\n", bold=True)


def step(label: str) -> None:
    """Begin a line."""
    click.echo(f"  {label:{LABEL_WIDTH}}", nl=False)


def line(label: str, text: str) -> None:
    """One line."""
    step(label)
    click.echo(text)


def share(label: str, value: float) -> None:
    """A bar for a fraction in [0, 1]."""
    full, empty = ("█", "░") if _can_print(SHADES) else ("#", ".")
    filled = round(value * BAR_WIDTH)
    line(label, f"{full * filled}{empty * (BAR_WIDTH - filled)}  {value:6.1%}")


def pictures(images: Sequence[NDArray[Any]], captions: Sequence[str]) -> None:
    """Digits side by side, each above its caption. images: (1, 8, 8) each."""
    shades = SHADES if _can_print(SHADES) else ASCII_SHADES
    drawn = [drawing(image, shades=shades) for image in images]
    for row in zip(*drawn, strict=True):
        click.echo(f"  {GAP.join(row)}")
    click.echo(f"  {GAP.join(f'{caption:16}' for caption in captions)}".rstrip())


def _can_print(text: str) -> bool:
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True
