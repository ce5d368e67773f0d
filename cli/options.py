"""What several commands share: options, arguments, and groups that suggest the right name."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Any, TypeVar

import click

from cli.client import Client
from storage.errors import HoneError

Command = TypeVar("Command", bound=Callable[..., Any])


class Group(click.Group):
    """A group whose wrong usage says more."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click's. Raises UsageError with the name that comes nearest."""
        name = args[0]
        known = self.list_commands(ctx)
        if name in known or name.startswith("-"):
            return super().resolve_command(ctx, args)
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
        raise click.UsageError(f"There is no command {name}; {hint}", ctx)


def _models(ctx: click.Context, _: click.Parameter, begun: str) -> list[str]:
    """Names of the daemon's models that begin so; none if it cannot be asked."""
    given_options = ctx.find_root().params
    client = Client(url=given_options.get("url"), token=given_options.get("token"))
    try:
        names = [model["name"] for model in client.items("/v1/models")]
    except (HoneError, click.ClickException):
        return []
    return [name for name in names if name.startswith(begun)]


model_argument = click.argument("model", shell_complete=_models)
optional_model_argument = click.argument("model", required=False, shell_complete=_models)
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")

output_option = click.option(
    "--output", help="Output tensor that the loss sees. Default: the only one."
)
trainable_option = click.option(
    "--trainable",
    multiple=True,
    metavar="PATTERN",
    help="Glob pattern over initializer names, as head.*; or head, last:2 for the last layers; may "
    "be repeated. Default: all weights.",
)

_HYPERPARAMETERS: tuple[tuple[str, Any, str], ...] = (
    ("epochs", int, "Passes over the samples. Default: 5, unless steps or seconds are given."),
    ("max_steps", int, "End after this many optimizer steps."),
    ("max_seconds", float, "End after this many seconds of training."),
    ("batch_size", int, "Samples in a batch."),
    ("learning_rate", float, "Peak learning rate."),
    (
        "schedule",
        click.Choice(["constant", "linear", "cosine"]),
        "How the learning rate falls from its peak.",
    ),
    ("warmup_steps", int, "Steps in which the learning rate rises to its peak."),
    ("accumulation_steps", int, "Batches whose gradients add up to one step."),
    ("early_stopping_patience", int, "End after this many epochs without a lower validation loss."),
    ("seed", int, "Seed of shuffling and dropout."),
)


def hyperparameters(command: Command) -> Command:
    """How a job trains. What is not given, the model's defaults decide."""
    for name, kind, text in reversed(_HYPERPARAMETERS):
        command = click.option(f"--{name.replace('_', '-')}", name, type=kind, help=text)(command)
    return command


def given(values: dict[str, Any]) -> dict[str, Any]:
    """Only what has a value."""
    return {name: value for name, value in values.items() if value is not None}
