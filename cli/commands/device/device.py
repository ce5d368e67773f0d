"""`honed device`: the signals of the device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from cli.client import Client
from cli.commands.device.status import verdict_line
from cli.options import ClientCommand
from cli.output import echo, echo_table, echo_text, plain, wants_json

GIBIBYTE = 2**30
BLOCKS = " ▁▂▃▄▅▆▇█"
UNKNOWN = "·"
COLUMNS = 48
"""Columns of a day in the terminal: half an hour each."""


@click.command(cls=ClientCommand)
@click.option("--history", is_flag=True, help="The last 24 hours instead, as small curves.")
def device(client: Client, *, history: bool) -> None:
    """Show every signal of the device, where it comes from, and whether a job may train now."""
    if history:
        interval = 5 if wants_json() else 24 * 60 // COLUMNS
        signals = client.get("/v1/device/history", interval=interval)
        echo(signals, _echo_history)
    else:
        echo(client.get("/v1/device"), _echo)


def _echo(device: dict[str, Any]) -> None:
    echo_text(f"trains: {verdict_line(device)}")
    echo_text(f"trained today: {device['trained_today_seconds'] / 60:.1f} min")
    echo_text()
    rows = (
        (name, measured(signal), signal["detail"] or None, signal["source"])
        for name, signal in device["signals"].items()
    )
    echo_table(("SIGNAL", "VALUE", "DETAIL", "SOURCE"), rows)


def _echo_history(graph: dict[str, Any]) -> None:
    echo_text(f"{graph['since'][:16]} UTC to now, {graph['interval_seconds'] / 60:g} min a sign")
    echo_text()
    trained = [seconds / graph["interval_seconds"] for seconds in graph["trained_seconds"]]
    minutes = f"{sum(graph['trained_seconds']) / 60:.1f} min"
    rows = [("trained", sparkline(trained, low=0, high=1), "", "", minutes)]
    for name, signal in graph["signals"].items():
        known = [value for value in signal["values"] if value is not None]
        ends = [measured({**signal, "value": value}) for value in (min(known), max(known))]
        last = measured({**signal, "value": signal["values"][-1]})
        rows.append((name, sparkline(signal["values"]), *ends, last))
    echo_table(("SIGNAL", "24 HOURS", "LEAST", "MOST", "NOW"), rows)


def sparkline(
    values: Sequence[float | None], *, low: float | None = None, high: float | None = None
) -> str:
    """A bar character per value, scaled from the minimum to the maximum."""
    known = [value for value in values if value is not None]
    low, high = (min(known) if low is None else low), (max(known) if high is None else high)
    top = len(BLOCKS) - 1
    return "".join(
        UNKNOWN if value is None else BLOCKS[round((value - low) / ((high - low) or 1) * top)]
        for value in values
    )


def measured(signal: dict[str, Any]) -> str:
    """A signal's value with its unit; a dash for an unknown one."""
    value, unit = signal["value"], signal["unit"]
    if value is None:
        return "-"
    if unit == "B":
        return f"{value / GIBIBYTE:.1f} GiB"
    return f"{plain(value)} {unit}".rstrip()
