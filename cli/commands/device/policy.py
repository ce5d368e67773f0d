"""`honed policy …`: when the device trains."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import click

from cli import assignments
from cli.assignments import echo_settings, parse, shown
from cli.client import Client
from cli.errors import Failure
from cli.options import Group
from cli.output import echo, echo_text

HEADER = """\
# A setting a line, NAME = VALUE, as for `honed policy set`; docs/policy.md explains each.
# A line that is left out stays as it is. To give up, close the editor without a change.
"""
REFUSED = "# refused: "
"""The prefix of error lines, which are ignored on reading."""


def edited(
    known: dict[str, Any], put: Callable[[dict[str, Any]], dict[str, Any]]
) -> dict[str, Any] | None:
    """The result of `put` for the user's changes; None if there are none.

    put: if it raises Failure, the user edits again, with the errors below their lines. Raises that
    Failure if the user then changes nothing.
    """
    text = HEADER + "".join(f"{name} = {shown(value)}\n" for name, value in _flat(known))
    failure: Failure | None = None
    while (again := click.edit(text, extension=".conf")) not in (None, text):
        assert again is not None
        lines = [line for line in again.splitlines() if not line.startswith(REFUSED)]
        try:
            changes = _changes(known, _settings(lines))
            return put(changes) if changes else None
        except Failure as refused:
            failure = refused
            text = "\n".join([*_annotated(lines, refused), ""])
    if failure is not None:
        raise failure.within("nothing was changed: ")
    return None


def _flat(settings: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Names as `honed policy set` takes them: `unknown.power`."""
    for name, value in settings.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _settings(lines: list[str]) -> dict[str, Any]:
    """The settings in the lines. Raises Failure."""
    told = [line for line in lines if line.strip() and not line.startswith("#")]
    try:
        return parse([_tight(line) for line in told])
    except click.UsageError as error:
        raise Failure(error.message) from error


def _tight(line: str) -> str:
    name, equals, value = line.partition("=")
    return f"{name.strip()}{equals}{value.strip()}"


def _changes(known: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    """The differences, in the form that PUT takes."""
    changes: dict[str, Any] = {}
    for name, value in wanted.items():
        before = known.get(name)
        if isinstance(value, dict) and isinstance(before, dict):
            if below := _changes(before, value):
                changes[name] = below
        elif name not in known or value != before:
            changes[name] = value
    return changes


def _annotated(lines: list[str], refused: Failure) -> Iterator[str]:
    """The lines with each error below its line, and errors without a line at the top."""
    faults = [(_name(pointer), detail) for pointer, detail in refused.faults]
    places = {_tight(line).partition("=")[0]: number for number, line in enumerate(lines)}
    beneath: dict[int | None, list[str]] = {}
    for name, detail in faults or [("", refused.message)]:
        beneath.setdefault(_place(places, name), []).append(detail.replace("\n", " "))
    yield from (REFUSED + detail for detail in beneath.get(None, ()))
    for number, line in enumerate(lines):
        yield line
        yield from (REFUSED + detail for detail in beneath.get(number, ()))


def _name(pointer: str) -> str:
    """The setting that a JSON pointer leads to: `/unknown/power` is `unknown.power`."""
    return pointer.removeprefix("/").replace("/", ".")


def _place(places: dict[str, int], name: str) -> int | None:
    """The number of a setting's line; an error within a value belongs to its setting."""
    while name not in places and "." in name:
        name = name.rpartition(".")[0]
    return places.get(name)


POLICY = "/v1/policy"


@click.group(cls=Group)
def policy() -> None:
    """Show or change when the device trains; docs/policy.md explains each setting."""


@policy.command("show")
def show(client: Client) -> None:
    """Show the policy in force."""
    echo(client.get(POLICY), echo_settings)


@policy.command("set")
@click.argument("settings", nargs=-1, required=True, metavar="NAME=VALUE...")
def set_policy(client: Client, settings: tuple[str, ...]) -> None:
    """Change some settings and keep the others: honed policy set max_minutes_per_day=90.

    A value is JSON, or a plain word: null switches a condition off. What holds for an unknown
    signal is set as unknown.power=allow. A level to stop and the one to resume go together:
    min_battery_percent=40 resume_battery_percent=60.
    """
    changes = assignments.parse(settings)
    answer = client.put(POLICY, changes)

    def show(policy: dict[str, Any]) -> None:
        echo_settings({name: policy[name] for name in changes})

    echo(answer, show)


@policy.command("check")
@click.argument("settings", nargs=-1, metavar="NAME=VALUE...")
def check(client: Client, settings: tuple[str, ...]) -> None:
    """Tell whether a job might train now if settings were changed, and change nothing.

    honed policy check require_idle=true idle_minutes=20. The delays of the policy count as passed.
    """
    verdict = client.post(f"{POLICY}/check", assignments.parse(settings))

    def show(verdict: dict[str, Any]) -> None:
        echo_text("would train now" if verdict["eligible"] else "would not train now")
        for blocker in verdict["blocked_by"]:
            echo_text(f"  {blocker['condition']}: {blocker['detail']}")

    echo(verdict, show)


@policy.command("reset")
def reset(client: Client) -> None:
    """Restore the defaults of the device."""
    echo(client.ask("DELETE", POLICY), echo_settings)


@policy.command("edit")
def edit(client: Client) -> None:
    """Open the policy in $VISUAL or $EDITOR; what is changed there is in force once it is saved.

    The daemon checks it. What it refuses stands beside the line in question, to be edited again; to
    give up, close the editor without a change.
    """
    known = client.get(POLICY)
    changed = edited(known, lambda changes: client.put(POLICY, changes))
    if changed is None:
        echo_text("nothing was changed", err=True)
    echo(known if changed is None else changed, echo_settings)
