"""`honed jobs …`: training runs."""

from __future__ import annotations

from typing import Any

import click

from cli import completion
from cli.client import Client
from cli.commands.versions.versions import scalars
from cli.options import Group, given, job_argument
from cli.output import (
    Columns,
    echo,
    echo_fields,
    echo_records,
    echo_table,
    echo_text,
    plain,
)

STATES = ("queued", "running", "paused", "succeeded", "failed", "cancelled")


@click.group(cls=Group)
def jobs() -> None:
    """List, show, cancel, pause and resume jobs, and show their curves and logs."""


@jobs.command("list")
@click.option("--model", help="Only jobs of this model.", shell_complete=completion.models)
@click.option(
    "--state",
    type=click.Choice(STATES),
    multiple=True,
    help="Only jobs in this state; may be repeated.",
)
def list_jobs(client: Client, *, model: str | None, state: tuple[str, ...]) -> None:
    """List the jobs."""
    columns: Columns = {
        "ID": "id",
        "MODEL": "model",
        "STATE": "state",
        "STEP": _steps,
        "LOSS": lambda job: job["metrics"].get("train_loss"),
        "VERSION": "version",
        "CREATED": "created_at",
    }
    echo_records(list(client.items("/v1/jobs", model=model, state=state)), columns)


@jobs.command("show")
@job_argument
def show(client: Client, job_id: int) -> None:
    """Show one job."""
    echo(client.get(f"/v1/jobs/{job_id}"), _show_job)


@jobs.command("cancel")
@job_argument
def cancel(client: Client, job_id: int) -> None:
    """End a job without a version."""
    echo(client.post(f"/v1/jobs/{job_id}/cancel"), _show_job)


@jobs.command("pause")
@job_argument
def pause(client: Client, job_id: int) -> None:
    """Save a checkpoint and stop the job until it is resumed."""
    echo(client.post(f"/v1/jobs/{job_id}/pause"), _show_job)


@jobs.command("resume")
@job_argument
@click.option(
    "--now",
    "ignore_policy",
    is_flag=True,
    help="Ignore the policy from now on; a queued or running job takes it too. A pause or a snooze "
    "still holds the job.",
)
def resume(client: Client, job_id: int, *, ignore_policy: bool) -> None:
    """Go on from the checkpoint of a paused job."""
    wish = {"ignore_policy": True} if ignore_policy else None
    echo(client.post(f"/v1/jobs/{job_id}/resume", wish), _show_job)


@jobs.command("log")
@job_argument
def log(client: Client, job_id: int) -> None:
    """Show the last lines that the job's training processes wrote, and how each of them ended."""

    def show(page: dict[str, Any]) -> None:
        for line in page["lines"]:
            said = line["text"] if line["source"] == "child" else f"-- {line['text']}"
            echo_text(f"{line['at'][:19]}  {said}")

    echo(client.get(f"/v1/jobs/{job_id}/log"), show)


@jobs.command("metrics")
@job_argument
def metrics(client: Client, job_id: int) -> None:
    """Show the curves of a job: a row for each step that was measured."""
    curves = list(client.items(f"/v1/jobs/{job_id}/metrics", limit=1000))

    def show(points: list[dict[str, Any]]) -> None:
        names = list(dict.fromkeys(name for point in points for name in point["values"]))
        rows = (
            [point["step"], point["epoch"], *(point["values"].get(name) for name in names)]
            for point in points
        )
        echo_table(("STEP", "EPOCH", *map(str.upper, names)), rows)

    echo(curves, show)


def in_spite(job: dict[str, Any]) -> str:
    """A note for a job that ignores the policy; empty for others."""
    runs_anyway = job["state"] == "running" and job["ignore_policy"]
    return ", ignoring the policy" if runs_anyway else ""


def _steps(job: dict[str, Any]) -> str:
    step, total = job["progress"]["step"], job["progress"]["total_steps"]
    return f"{step}/{'?' if total is None else total}"


def _show_job(job: dict[str, Any]) -> None:
    metrics = job["metrics"]
    echo_fields(
        [
            ("job", job["id"]),
            ("model", job["model"]),
            ("state", job["state"] + in_spite(job)),
            *(("waits for", f"{b['condition']}: {b['detail']}") for b in job["blocked_by"]),
            ("trigger", job["trigger"]),
            ("step", _steps(job)),
            ("hyperparameters", given(job["hyperparameters"])),
            *(
                ("chosen", f"{name}={plain(job['hyperparameters'][name])}: {why}")
                for name, why in job["choices"].items()
            ),
            ("train loss", metrics.get("train_loss")),
            ("validation", scalars(metrics.get("validation"))),
            ("baseline", scalars(metrics.get("baseline"))),
            ("version", job["version"]),
            ("engine", job["engine"]),
            ("restarts", job["restarts"]),
            ("error", job["error"] and why_not(job)),
            ("created", job["created_at"]),
            ("started", job["started_at"]),
            ("finished", job["finished_at"]),
        ]
    )


def why_not(job: dict[str, Any]) -> str:
    """How an unsuccessful job ended."""
    error = job["error"] or {}
    detail = error.get("detail")
    return f"job {job['id']} {job['state']}" + (f": {detail}" if detail else "")
