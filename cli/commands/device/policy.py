"""`honed policy …`: when the device trains."""

from __future__ import annotations

from typing import Any

import click

from cli import assignments
from cli.assignments import echo_settings
from cli.client import Client
from cli.commands.device.editing import edited
from cli.options import Group, with_client
from cli.output import echo, echo_text

POLICY = "/v1/policy"


@click.group(cls=Group)
def policy() -> None:
    """Show or change when the device trains; docs/policy.md explains each setting."""


@policy.command("show")
@with_client
def show(client: Client) -> None:
    """Show the policy in force."""
    echo(client.get(POLICY), echo_settings)


@policy.command("set")
@click.argument("settings", nargs=-1, required=True, metavar="NAME=VALUE...")
@with_client
def set_policy(client: Client, settings: tuple[str, ...]) -> None:
    """Change some settings and keep the others: honed policy set max_minutes_per_day=90.

    A value is JSON, or a plain word: null switches a condition off. What holds for an unknown
    signal is set as unknown.power=allow. A level to stop and the one to resume go together:
    min_battery_percent=40 resume_battery_percent=60.
    """
    changes = assignments.parse(settings)
    answer = client.request("PUT", POLICY, json=changes).json()

    def show(found: dict[str, Any]) -> None:
        echo_settings({name: found[name] for name in changes})

    echo(answer, show)


@policy.command("check")
@click.argument("settings", nargs=-1, metavar="NAME=VALUE...")
@with_client
def check(client: Client, settings: tuple[str, ...]) -> None:
    """Tell whether a job might train now if settings were changed, and change nothing.

    honed policy check require_idle=true idle_minutes=20. The delays of the policy count as passed.
    """
    found = client.post(f"{POLICY}/check", assignments.parse(settings))

    def show(found: dict[str, Any]) -> None:
        echo_text("would train now" if found["eligible"] else "would not train now")
        for blocker in found["blocked_by"]:
            echo_text(f"  {blocker['condition']}: {blocker['detail']}")

    echo(found, show)


@policy.command("reset")
@with_client
def reset(client: Client) -> None:
    """Restore the defaults of the device."""
    echo(client.request("DELETE", POLICY).json(), echo_settings)


@policy.command("edit")
@with_client
def edit(client: Client) -> None:
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
    echo(known if changed is None else changed, echo_settings)
