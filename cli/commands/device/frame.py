"""A frame of `honed top`: verdict, signals, job, curve, waiting jobs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import fmean
from typing import Any

from rich.columns import Columns
from rich.console import ConsoleDimensions, Group, RenderableType
from rich.layout import Layout
from rich.progress_bar import ProgressBar
from rich.text import Text

from cli.commands.device.device import BLOCKS, measured
from cli.commands.device.status import verdict_line, what_blocks
from cli.output import plain
from service.logs import visible

MAX_CURVE_ROWS = 8
LONGEST_VALUE = 16
OTHER_ROWS = 6
"""Rows of a frame besides curve, signals and waiting jobs."""


def frame(facts: dict[str, Any], size: ConsoleDimensions) -> RenderableType:
    """All of the facts."""
    device, shown = facts["device"], facts["shown"]
    parts: list[RenderableType] = [_headline(facts), _verdict(device), Text(), _signals(device)]
    if shown is not None:
        parts += [Text(), *_job(shown, facts["curve"], size)]
    waiting = [job for job in facts["jobs"] if job is not shown]
    parts += [_waiting(job) for job in waiting]
    return Group(*parts)


def screen(facts: dict[str, Any], size: ConsoleDimensions) -> RenderableType:
    """The facts as far as there is room, and below them how to quit."""
    whole = Layout()
    whole.split_column(Layout(frame(facts, size)), Layout(Text("q quits", style="dim"), size=1))
    return whole


def _text(content: str, **style: Any) -> Text:
    """Text that cannot command the terminal, whoever has named what is in it."""
    return Text(visible(content), **style)


def _headline(facts: dict[str, Any]) -> Text:
    if facts["trouble"]:
        return _text(facts["trouble"].splitlines()[0] + "; trying again", style="bold red")
    return _text(f"honed at {facts['endpoint']}", style="bold", no_wrap=True, overflow="ellipsis")


def _verdict(device: dict[str, Any]) -> Text:
    today = f"; {device['trained_today_seconds'] / 60:.0f} min today"
    style = "green" if device["eligible"] else "yellow"
    return _text(f"trains: {verdict_line(device)}{today}", style=style)


def _signals(device: dict[str, Any]) -> Columns:
    """The known, short signals, in as many columns as there is room for."""
    shown = ((name, measured(signal)) for name, signal in device["signals"].items())
    return Columns(
        [
            _text(f"{name} {value}", no_wrap=True)
            for name, value in shown
            if value != plain(None) and len(value) <= LONGEST_VALUE
        ]
    )


def _job(
    job: dict[str, Any], points: Sequence[tuple[int, float]], size: ConsoleDimensions
) -> Iterator[RenderableType]:
    yield _text(_progress(job), style="bold")
    total = job["progress"]["total_steps"]
    if total:
        yield ProgressBar(total=total, completed=job["progress"]["step"], width=size.width)
    if len(points) > 1:
        losses = [loss for _, loss in points]
        rows = max(2, min(MAX_CURVE_ROWS, size.height - OTHER_ROWS - MAX_CURVE_ROWS))
        yield _text(
            f"loss {plain(losses[-1])}, {plain(min(losses))} to {plain(max(losses))} "
            f"in steps {points[0][0]} to {points[-1][0]}"
        )
        yield from (Text(line, style="cyan") for line in curve(losses, size.width, rows))


def _progress(job: dict[str, Any]) -> str:
    progress = job["progress"]
    step, total = progress["step"], progress["total_steps"]
    parts = [
        f"job {job['id']} of {job['model']} is {job['state']}",
        f"step {step}" + (f" of {total}" if total else ""),
        progress["epochs"]
        and f"epoch {min(progress['epoch'] + 1, progress['epochs'])} of {progress['epochs']}",
        progress["samples_per_second"] and f"{progress['samples_per_second']:.0f} samples/s",
        progress["eta_seconds"] is not None and f"{progress['eta_seconds']:.0f} s left",
    ]
    return ", ".join(part for part in parts if part) + what_blocks(job)


def _waiting(job: dict[str, Any]) -> Text:
    return _text(f"job {job['id']} of {job['model']} is {job['state']}{what_blocks(job)}")


def curve(values: Sequence[float], width: int, rows: int) -> list[str]:
    """Lines of blocks, the first one on top; each column is the mean of its values."""
    count = len(values)
    edges = [column * count // width for column in range(width + 1)]
    means = [fmean(values[a : max(a + 1, b)]) for a, b in pairwise(edges)]
    low, high = min(means), max(means)
    span = (high - low) or 1.0
    eighths = [1 + round((mean - low) / span * (8 * rows - 1)) for mean in means]
    return [
        "".join(BLOCKS[max(0, min(8, eighth - 8 * row))] for eighth in eighths)
        for row in reversed(range(rows))
    ]
