"""`honed triggers …`: jobs that start without a request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from cli import completion
from cli.client import Client, model_path
from cli.options import (
    Group,
    as_json,
    given,
    hyperparameters,
    model_argument,
    optional_model_argument,
)
from cli.output import echo_done, echo_json, echo_table, plain

Command = TypeVar("Command", bound=Callable[..., Any])

_RULE: dict[str, dict[str, Any]] = {
    "cron": {"metavar": "FIELDS", "help": "Minute, hour, day, month, day of the week."},
    "time_zone": {"metavar": "ZONE", "help": "Time zone of the times. Default: the device's own."},
    "jitter_seconds": {"type": float, "help": "Delay each firing of cron at random by up to this."},
    "new_samples": {"type": int, "help": "Fire when this many more samples have a label."},
    "on_drift": {
        "is_flag": True,
        "default": None,
        "help": "Fire when inputs have drifted from those that `latest` was trained on.",
    },
    "eligible_after": {
        "metavar": "TIME",
        "help": "Fire at the first moment at which a job may train, after 20:00 of each day, or "
        "after an instant, once.",
    },
    "at_most_every_hours": {
        "type": float,
        "help": "Fire at most this often; alone: exactly this often.",
    },
    "name": {"help": "The `trigger` of its jobs. Default: its kind."},
    "priority": {"type": int, "help": "Priority of its jobs, -100 to 100."},
}
_SHOWN = tuple(name for name in _RULE if name not in ("name", "priority"))


trigger_argument = click.argument("trigger_id", type=int, shell_complete=completion.triggers)


def _rule(command: Command) -> Command:
    for name, option in reversed(_RULE.items()):
        command = click.option(f"--{name.replace('_', '-')}", name, **option)(command)
    return command


@click.group(cls=Group)
def triggers() -> None:
    """Queue jobs of a model by time or by new samples; docs/triggers.md has the rules."""


@triggers.command("add")
@model_argument
@_rule
@hyperparameters
@as_json
@click.pass_obj
def add(client: Client, /, model: str, *, as_json: bool, **options: Any) -> None:
    """Create a trigger that queues jobs of MODEL.

    Give one of --cron, --new-samples, --on-drift and --eligible-after, or --at-most-every-hours
    alone: honed triggers add digits --cron "30 2 * * mon-fri" --epochs 3
    """
    rule = given({name: options.pop(name) for name in _RULE})
    body = {**rule, "hyperparameters": given(options)}
    _echo(client.post(_path(model), body), as_json=as_json)


@triggers.command("list")
@optional_model_argument
@as_json
@click.pass_obj
def list_triggers(client: Client, model: str | None, *, as_json: bool) -> None:
    """List the triggers of MODEL or of all, when they fire next, and how their last try ended."""
    models = [each["name"] for each in client.items("/v1/models")] if model is None else [model]
    found = [trigger for name in models for trigger in client.items(_path(name))]
    if as_json:
        echo_json(found)
    else:
        _echo_table(found)


@triggers.command("show")
@model_argument
@trigger_argument
@as_json
@click.pass_obj
def show(client: Client, model: str, trigger_id: int, *, as_json: bool) -> None:
    """Show a trigger, with the result of its last try."""
    _echo(client.get(f"{_path(model)}/{trigger_id}"), as_json=as_json)


@triggers.command("enable")
@model_argument
@trigger_argument
@as_json
@click.pass_obj
def enable(client: Client, model: str, trigger_id: int, *, as_json: bool) -> None:
    """Switch a trigger on again."""
    _switch(client, model, trigger_id, enabled=True, as_json=as_json)


@triggers.command("disable")
@model_argument
@trigger_argument
@as_json
@click.pass_obj
def disable(client: Client, model: str, trigger_id: int, *, as_json: bool) -> None:
    """Switch a trigger off, and keep it."""
    _switch(client, model, trigger_id, enabled=False, as_json=as_json)


@triggers.command("remove")
@model_argument
@trigger_argument
@as_json
@click.pass_obj
def remove(client: Client, model: str, trigger_id: int, *, as_json: bool) -> None:
    """Remove a trigger; the jobs that it has asked for stay."""
    client.request("DELETE", f"{_path(model)}/{trigger_id}")
    told = f"trigger {trigger_id} of {model} is removed"
    echo_done(told, model=model, removed=trigger_id, as_json=as_json)


def _path(model: str) -> str:
    return f"{model_path(model)}/triggers"


def _switch(client: Client, model: str, trigger_id: int, *, enabled: bool, as_json: bool) -> None:
    changes = {"enabled": enabled}
    answer = client.request("PATCH", f"{_path(model)}/{trigger_id}", json=changes).json()
    _echo(answer, as_json=as_json)


def _echo(trigger: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        echo_json(trigger)
    else:
        _echo_table([trigger])


def _echo_table(found: list[dict[str, Any]]) -> None:
    echo_table(
        ("ID", "MODEL", "NAME", "WHEN", "ON", "NEXT", "FIRED", "JOB", "LAST TRY"),
        (
            (
                each["id"],
                each["model"],
                each["name"],
                plain({name: each[name] for name in _SHOWN if each[name]}),
                each["enabled"],
                each["next_at"],
                each["fired_at"],
                each["job_id"],
                each["outcome"] or None,
            )
            for each in found
        ),
    )
