"""`honed models base`, `upgrade`, `drop-upgrade`: a new base for a model that has learned."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import click

from cli.client import Client, model_path
from cli.commands.models.registration import file_options, send_file, source_argument, spec_of
from cli.options import ClientCommand, model_argument, yes_option
from cli.output import echo, echo_done, echo_fields, echo_text
from service.models.upgrade.spec import Running


@click.command(cls=ClientCommand)
@model_argument
@source_argument
@file_options
@click.option(
    "--running",
    type=click.Choice(get_args(Running)),
    help="Whether a running or paused job of the old base ends first (wait), or is cancelled.",
)
@click.option("--check", is_flag=True, help="Only say whether SOURCE fits; change nothing.")
def upgrade(
    client: Client,
    /,
    model: str,
    source: Path,
    *,
    running: str | None,
    check: bool,
    tokenizer: Path | None,
    **options: Any,
) -> None:
    """Train SOURCE, a forward ONNX file of any architecture, on the samples of MODEL.

    MODEL serves as it is until a version of SOURCE is no worse by its gate. Hyperparameters given
    here are of the upgrade's jobs; --class names the classes of SOURCE.
    """
    optimizer = options.pop("optimizer")
    spec = spec_of(**options) | ({} if running is None else {"running": running})
    if optimizer is not None:
        spec["hyperparameters"] = {**spec.get("hyperparameters", {}), "optimizer": optimizer}
    how = {"method": "PUT", "params": {"check": check}}
    answer = send_file(client, model_path(model, "base"), source, spec, tokenizer, **how)
    echo(answer, _show_check if check else _show_job)


@click.command("base", cls=ClientCommand)
@model_argument
def show_base(client: Client, model: str) -> None:
    """Show the file that `latest` of MODEL descends from, and the upgrade that waits."""
    echo(client.get(model_path(model, "base")), _show_base)


@click.command(cls=ClientCommand)
@model_argument
@yes_option
def drop_upgrade(client: Client, model: str, *, yes: bool) -> None:
    """Drop the upgrade of MODEL that waits, with its versions; its job is cancelled."""
    if not yes:
        click.confirm(f"Drop the upgrade of {model}?", abort=True)
    client.request("DELETE", model_path(model, "base"))
    echo_done(f"the upgrade of {model} is dropped", dropped=model)


def _show_job(job: dict[str, Any]) -> None:
    echo_text(f"job {job['id']} trains the upgrade when the policy allows")


def _show_check(check: dict[str, Any]) -> None:
    count = f"{check['trainable_parameters']:,} of its parameters would train"
    echo_text(f"it fits: {count}, {check['frozen_parameters']:,} are frozen")
    if check["consent_ends"]:
        echo_text("  consent to federated training would end: other parameters train")
    for note in check["notes"]:
        echo_text(f"  {note}")


def _show_base(base: dict[str, Any]) -> None:
    told = {"base": base["base"], "sha256": base["sha256"], "since": base["adopted_at"]}
    told["versions"] = ", ".join(map(str, base["versions"]))
    for former in base["former"]:
        told[f"base {former['base']}"] = "versions " + ", ".join(map(str, former["versions"]))
    if (waits := base["upgrade"]) is not None:
        told["upgrade"] = f"{waits['state']}: {waits['reason']}"
    echo_fields(told.items())
