"""`honed snooze`, `honed pause`, `honed resume`: manual pauses of training."""

from __future__ import annotations

import math
from typing import Any

import click

from cli.client import Client
from cli.commands.device.status import verdict_line
from cli.options import ClientCommand
from cli.output import echo, echo_text


@click.command(cls=ClientCommand)
@click.argument("minutes", type=float, required=False)
@click.option("--morning", is_flag=True, help="Until seven in the morning.")
@click.option("--off", is_flag=True, help="End the snooze.")
def snooze(client: Client, *, minutes: float | None, morning: bool, off: bool) -> None:
    """Stop training for MINUTES; a running job is saved and paused."""
    if (minutes is not None) + morning + off != 1:
        raise click.UsageError("give MINUTES, --morning or --off")
    if minutes is not None and not math.isfinite(minutes):
        raise click.UsageError(
            f"{minutes} is not a number of minutes; to pause without an end, use `honed pause`"
        )
    if off:
        verdict = client.ask("DELETE", "/v1/snooze")
    else:
        verdict = client.post(
            "/v1/snooze", {"until": "morning"} if morning else {"minutes": minutes}
        )
    echo(verdict, _echo)


@click.command(cls=ClientCommand)
def pause(client: Client) -> None:
    """Stop training until `honed resume`; a running job is saved and paused."""
    echo(client.post("/v1/pause"), _echo)


@click.command(cls=ClientCommand)
def resume(client: Client) -> None:
    """End `honed pause`: train again when the policy allows it."""
    echo(client.post("/v1/resume"), _echo)


def _echo(verdict: dict[str, Any]) -> None:
    echo_text(verdict_line(verdict))
