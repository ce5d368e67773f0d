"""`honed policy …`, `honed snooze`, `honed pause`, `honed resume`: when the device trains."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import click

from cli.client import Client
from cli.options import Group, as_json
from cli.output import echo_fields, echo_json


@click.group(cls=Group)
def policy() -> None:
    """Show or change when the device trains; docs/policy.md explains each setting."""


@policy.command("show")
@as_json
@click.pass_obj
def show(client: Client, *, as_json: bool) -> None:
    """Show the policy in force."""
    _echo_policy(client.get("/v1/policy"), as_json=as_json)


@policy.command("set")
@click.argument("settings", nargs=-1, required=True, metavar="NAME=VALUE...")
@as_json
@click.pass_obj
def set_policy(client: Client, settings: tuple[str, ...], *, as_json: bool) -> None:
    """Change some settings and keep the others: honed policy set max_minutes_per_day=90.

    A value is JSON, or a plain word: null switches a condition off. What holds for an unknown
    signal is set as unknown.power=allow. A level to stop and the one to resume go together:
    min_battery_percent=40 resume_battery_percent=60.
    """
    changes = _changes(settings)
    answer = client.request("PUT", "/v1/policy", json=changes).json()
    if as_json:
        echo_json(answer)
    else:
        echo_fields([(name, _shown(answer[name])) for name in changes])


@policy.command("reset")
@as_json
@click.pass_obj
def reset(client: Client, *, as_json: bool) -> None:
    """Restore the defaults of the device."""
    _echo_policy(client.request("DELETE", "/v1/policy").json(), as_json=as_json)


@click.command()
@click.argument("minutes", type=float, required=False)
@click.option("--morning", is_flag=True, help="Until seven in the morning.")
@click.option("--off", is_flag=True, help="End the snooze.")
@click.pass_obj
def snooze(client: Client, *, minutes: float | None, morning: bool, off: bool) -> None:
    """Stop training for MINUTES; a running job is saved and paused."""
    if (minutes is not None) + morning + off != 1:
        raise click.UsageError("give MINUTES, --morning or --off")
    if minutes is not None and not math.isfinite(minutes):
        raise click.UsageError(
            f"{minutes} is not a number of minutes; to pause without an end, use `honed pause`"
        )
    if off:
        verdict = client.request("DELETE", "/v1/snooze").json()
    else:
        verdict = client.post(
            "/v1/snooze", {"until": "morning"} if morning else {"minutes": minutes}
        )
    click.echo(verdict_line(verdict))


@click.command()
@click.pass_obj
def pause(client: Client) -> None:
    """Stop training until `honed resume`; a running job is saved and paused."""
    click.echo(verdict_line(client.post("/v1/pause")))


@click.command()
@click.pass_obj
def resume(client: Client) -> None:
    """End `honed pause`: train again when the policy allows it."""
    click.echo(verdict_line(client.post("/v1/resume")))


def verdict_line(verdict: dict[str, Any]) -> str:
    """Whether the device trains, and everything that prevents it."""
    if verdict["eligible"]:
        return "yes, nothing keeps a job from training"
    return "not now: " + "; ".join(blocker["detail"] for blocker in verdict["blocked_by"])


def _changes(settings: Sequence[str]) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals:
            raise click.UsageError(f"{setting!r} is not NAME=VALUE")
        group, _, condition = name.partition(".")
        place = changes.setdefault(group, {}) if condition else changes
        key = condition or name
        if not isinstance(place, dict) or key in place:
            raise click.UsageError(f"{setting!r} sets {key} a second time")
        place[key] = _value(text)
    return changes


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _echo_policy(settings: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        echo_json(settings)
    else:
        echo_fields([(name, _shown(value)) for name, value in settings.items()])
