"""`honed policy …`: when the device trains."""

from __future__ import annotations

from typing import Any

import click

from cli import assignments
from cli.assignments import echo_settings
from cli.client import Client
from cli.commands.device.editing import edited
from cli.options import Group, as_json
from cli.output import echo, echo_text

POLICY = "/v1/policy"


@click.group(cls=Group)
def policy() -> None:
    """Show or change when the device trains; docs/policy.md explains each setting."""


@policy.command("show")
@as_json
@click.pass_obj
def show(client: Client, *, as_json: bool) -> None:
    """Show the policy in force."""
    echo(client.get(POLICY), echo_settings, as_json=as_json)


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
    changes = assignments.parse(settings)
    answer = client.request("PUT", POLICY, json=changes).json()

    def show(found: dict[str, Any]) -> None:
        echo_settings({name: found[name] for name in changes})

    echo(answer, show, as_json=as_json)


@policy.command("check")
@click.argument("settings", nargs=-1, metavar="NAME=VALUE...")
@as_json
@click.pass_obj
def check(client: Client, settings: tuple[str, ...], *, as_json: bool) -> None:
    """Tell whether a job might train now if settings were changed, and change nothing.

    honed policy check require_idle=true idle_minutes=20. The delays of the policy count as passed.
    """
    found = client.post(f"{POLICY}/check", assignments.parse(settings))

    def show(found: dict[str, Any]) -> None:
        echo_text("would train now" if found["eligible"] else "would not train now")
        for blocker in found["blocked_by"]:
            echo_text(f"  {blocker['condition']}: {blocker['detail']}")

    echo(found, show, as_json=as_json)


@policy.command("reset")
@as_json
@click.pass_obj
def reset(client: Client, *, as_json: bool) -> None:
    """Restore the defaults of the device."""
    echo(client.request("DELETE", POLICY).json(), echo_settings, as_json=as_json)


@policy.command("edit")
@as_json
@click.pass_obj
def edit(client: Client, *, as_json: bool) -> None:
    """Open the policy in $VISUAL or $EDITOR; what is changed there is in force once it is saved.

    The daemon checks it. What it refuses stands beside the line in question, to be edited again; to
    give up, close the editor without a change.
    """
    known = client.get(POLICY)

    def put(changes: dict[str, Any]) -> dict[str, Any]:
        answer: dict[str, Any] = client.request("PUT", POLICY, json=changes).json()
        return answer

    changed = edited(known, put)
    if changed is None:
        echo_text("nothing was changed", err=True)
    echo(known if changed is None else changed, echo_settings, as_json=as_json)
