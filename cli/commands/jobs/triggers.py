"""`honed triggers …`: jobs that start without a request."""

from __future__ import annotations

from typing import Any

import click

from cli import completion
from cli.client import Client, model_path
from cli.options import (
    Group,
    given,
    hyperparameters,
    model_argument,
    named,
    optional_model_argument,
)
from cli.output import Columns, echo_done, echo_records, plain

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
_COLUMNS: Columns = {
    "ID": "id",
    "MODEL": "model",
    "NAME": "name",
    "WHEN": lambda trigger: plain({name: trigger[name] for name in _SHOWN if trigger[name]}),
    "ON": "enabled",
    "NEXT": "next_at",
    "FIRED": "fired_at",
    "JOB": "job_id",
    "LAST TRY": lambda trigger: trigger["outcome"] or None,
}


trigger_argument = click.argument("trigger_id", type=int, shell_complete=completion.triggers)


@click.group(cls=Group)
def triggers() -> None:
    """Queue jobs of a model by time or by new samples; docs/triggers.md has the rules."""


@triggers.command("add")
@model_argument
@named(_RULE)
@hyperparameters
def add(client: Client, /, model: str, **options: Any) -> None:
    """Create a trigger that queues jobs of MODEL.

    Give one of --cron, --new-samples, --on-drift and --eligible-after, or --at-most-every-hours
    alone: honed triggers add digits --cron "30 2 * * mon-fri" --epochs 3
    """
    rule = given({name: options.pop(name) for name in _RULE})
    body = {**rule, "hyperparameters": given(options)}
    echo_records(client.post(_path(model), body), _COLUMNS)


@triggers.command("list")
@optional_model_argument
def list_triggers(client: Client, model: str | None) -> None:
    """List the triggers of MODEL or of all, when they fire next, and how their last try ended."""
    models = [model["name"] for model in client.items("/v1/models")] if model is None else [model]
    rows = [trigger for name in models for trigger in client.items(_path(name))]
    echo_records(rows, _COLUMNS)


@triggers.command("show")
@model_argument
@trigger_argument
def show(client: Client, model: str, trigger_id: int) -> None:
    """Show a trigger, with the result of its last try."""
    echo_records(client.get(f"{_path(model)}/{trigger_id}"), _COLUMNS)


@triggers.command("enable")
@model_argument
@trigger_argument
def enable(client: Client, model: str, trigger_id: int) -> None:
    """Switch a trigger on again."""
    _switch(client, model, trigger_id, enabled=True)


@triggers.command("disable")
@model_argument
@trigger_argument
def disable(client: Client, model: str, trigger_id: int) -> None:
    """Switch a trigger off, and keep it."""
    _switch(client, model, trigger_id, enabled=False)


@triggers.command("remove")
@model_argument
@trigger_argument
def remove(client: Client, model: str, trigger_id: int) -> None:
    """Remove a trigger; the jobs that it has asked for stay."""
    client.request("DELETE", f"{_path(model)}/{trigger_id}")
    echo_done(f"trigger {trigger_id} of {model} is removed", model=model, removed=trigger_id)


def _path(model: str) -> str:
    return f"{model_path(model)}/triggers"


def _switch(client: Client, model: str, trigger_id: int, *, enabled: bool) -> None:
    answer = client.patch(f"{_path(model)}/{trigger_id}", {"enabled": enabled})
    echo_records(answer, _COLUMNS)
