"""`honed device`: what the device says of itself."""

from __future__ import annotations

from typing import Any

import click

from cli.client import Client
from cli.commands.device.status import verdict_line
from cli.options import as_json
from cli.output import echo, echo_table, plain

GIBIBYTE = 2**30


@click.command()
@as_json
@click.pass_obj
def device(client: Client, *, as_json: bool) -> None:
    """Show every signal of the device, where it comes from, and whether a job may train now."""
    echo(client.get("/v1/device"), _echo, as_json=as_json)


def _echo(found: dict[str, Any]) -> None:
    click.echo(f"trains: {verdict_line(found)}")
    click.echo(f"trained today: {found['trained_today_seconds'] / 60:.1f} min")
    click.echo()
    rows = (
        (name, measured(signal), signal["detail"] or None, signal["source"])
        for name, signal in found["signals"].items()
    )
    echo_table(("SIGNAL", "VALUE", "DETAIL", "SOURCE"), rows)


def measured(signal: dict[str, Any]) -> str:
    """A signal's value with its unit; a dash for an unknown one."""
    value, unit = signal["value"], signal["unit"]
    if value is None:
        return "-"
    if unit == "B":
        return f"{value / GIBIBYTE:.1f} GiB"
    return f"{plain(value)} {unit}".rstrip()
