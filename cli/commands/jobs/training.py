"""`honed train`: queue a job, and watch it."""

from __future__ import annotations

import time
from typing import Any

import click

from cli.client import Client, model_path
from cli.commands.jobs.jobs import why_not
from cli.commands.versions.versions import find_version, on_base_set, scalars
from cli.errors import Failure, Unreachable
from cli.options import ClientCommand, given, hyperparameters, model_argument
from cli.output import echo_fields, echo_json, echo_text, wants_json
from cli.progress import bar

POLL_S = 0.2
RESTART_S = 60.0
"""How long a watched job's daemon may be away: it goes on with the job once it runs again."""
BAR_UNITS = 1000
ENDED = frozenset({"succeeded", "failed", "cancelled"})


@click.command(cls=ClientCommand)
@model_argument
@hyperparameters
@click.option(
    "--from",
    "start",
    help="Where to start from: latest, base or a checkpoint's id. Default: latest.",
)
@click.option(
    "--now",
    "--ignore-policy",
    "ignore_policy",
    is_flag=True,
    help="Run regardless of the policy. A pause or a snooze still holds the job.",
)
@click.option(
    "--priority",
    type=int,
    help="Of two waiting jobs, the one with the higher priority runs first. Default: 0.",
)
@click.option(
    "--watch", is_flag=True, help="Wait until the job ends; exit with 1 unless it succeeds."
)
def train(
    client: Client,
    /,
    model: str,
    *,
    start: str | None,
    ignore_policy: bool,
    priority: int | None,
    watch: bool,
    **values: Any,
) -> None:
    """Train MODEL on its samples.

    What is not given is as the model's own hyperparameters say (honed models show MODEL), or else
    the default that is named here. Without options that say how long or how fast to train, the job
    chooses: see --auto.
    """
    wish = given(
        {
            **values,
            "from": _number(start),
            "ignore_policy": ignore_policy or None,
            "priority": priority,
        }
    )
    job = client.post(model_path(model, "jobs"), wish)
    if not wants_json():
        echo_text(f"job {job['id']} is {job['state']}")
    if watch:
        job = _watched(client, job)
    if wants_json():
        echo_json(job)
    elif watch:
        _echo_end(client, job)
    if watch and job["state"] != "succeeded":
        raise Failure(why_not(job))


def _watched(client: Client, job: dict[str, Any]) -> dict[str, Any]:
    try:
        return watch_job(client, job)
    except KeyboardInterrupt:
        raise Failure(
            f"stopped watching; job {job['id']} goes on: honed jobs show {job['id']}"
        ) from None


def watch_job(client: Client, job: dict[str, Any], *, label: str = "Training") -> dict[str, Any]:
    """Follow a job to its end with a progress bar, and print what it waits for."""
    shown, told, began_at = 0, None, None
    with bar(BAR_UNITS, label) as advance:
        while job["state"] not in ENDED:
            if job["state"] == "running":
                began_at = began_at or time.monotonic()
                reached = round(BAR_UNITS * _share_done(job, time.monotonic() - began_at))
                advance(max(0, reached - shown))
                shown = max(shown, reached)
            elif (waits := _waits_for(job)) not in (None, told):
                echo_text(waits, err=True)
                told = waits
            job = _later(client, job)
        if job["state"] == "succeeded":
            advance(BAR_UNITS - shown)
    return job


def _later(client: Client, job: dict[str, Any]) -> dict[str, Any]:
    gives_up_at = time.monotonic() + RESTART_S
    while True:
        time.sleep(POLL_S)
        try:
            return client.get(f"/v1/jobs/{job['id']}")
        except Unreachable:
            if time.monotonic() > gives_up_at:
                raise


def _share_done(job: dict[str, Any], elapsed_s: float) -> float:
    """Progress from 0 to 1; by the clock if the job is limited only by time."""
    if total_steps := job["progress"]["total_steps"]:
        return min(1.0, float(job["progress"]["step"] / total_steps))
    max_seconds = job["hyperparameters"].get("max_seconds")
    return min(1.0, elapsed_s / float(max_seconds)) if max_seconds else 0.0


def _waits_for(job: dict[str, Any]) -> str | None:
    if not job["blocked_by"]:
        return None
    reasons = "; ".join(blocker["detail"] for blocker in job["blocked_by"])
    return f"job {job['id']} is {job['state']}: {reasons}"


def _number(start: str | None) -> str | int | None:
    return int(start) if start is not None and start.isdecimal() else start


def _echo_end(client: Client, job: dict[str, Any]) -> None:
    """Print how the job ended, what the gate decided, and the metrics of what apps fetch."""
    version = _version(client, job, job["version"])
    fetched = _version(client, job, "latest") if version else None
    echo_text(_headline(job, version, fetched))
    metrics = job["metrics"]
    echo_fields(
        [
            ("version", job["version"]),
            ("train loss", metrics.get("train_loss")),
            ("validation", scalars(metrics.get("validation"))),
            ("baseline", scalars(metrics.get("baseline"))),
            ("base set", version and on_base_set(version)),
            ("gate", version and version["reason"]),
            ("apps fetch", fetched and version and _fetched(version, fetched)),
        ]
    )


def _version(client: Client, job: dict[str, Any], which: str | int | None) -> dict[str, Any] | None:
    return None if which is None else find_version(client, job["model"], which)


def _headline(
    job: dict[str, Any], version: dict[str, Any] | None, fetched: dict[str, Any] | None
) -> str:
    if version is None or fetched is None:
        return f"job {job['id']} {job['state']}"
    if version["promoted"]:
        return f"job {job['id']} succeeded: version {version['version']} is promoted"
    return (
        f"job {job['id']} ended, but version {version['version']} is not promoted: "
        f"apps keep version {fetched['version']}"
    )


def _fetched(version: dict[str, Any], fetched: dict[str, Any]) -> str:
    """The metrics of what apps fetch, as the gate measured both on the same samples.

    The baseline of the job itself is of what it began with, which may be another version.
    """
    is_new = fetched["version"] == version["version"]
    figures = scalars(version["metrics" if is_new else "baseline"])
    return f"version {fetched['version']}" + (f": {figures}" if figures else "")
