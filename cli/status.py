"""`honed status`: what the daemon is doing."""

from __future__ import annotations

from typing import Any

import click

from cli.client import Client
from cli.options import as_json
from cli.output import echo_fields, echo_json

WORKING = ("running", "queued", "paused")


@click.command()
@as_json
@click.pass_obj
def status(client: Client, *, as_json: bool) -> None:
    """Say what the daemon is doing."""
    health = client.get("/healthz")
    models = list(client.items("/v1/models"))
    jobs = [job for state in WORKING for job in client.items("/v1/jobs", state=state)]
    if as_json:
        echo_json({"url": client.url, "health": health, "models": models, "jobs": jobs})
        return
    echo_fields(
        [
            ("daemon", f"honed {health.get('version', '')} at {client.url}"),
            *(("model", _model(model)) for model in models),
            *((job["state"], _job(job)) for job in jobs),
        ]
    )


def _model(model: dict[str, Any]) -> str:
    counts = model["samples"]
    return (
        f"{model['name']}: version {model['latest_version']}, {counts['train']:,} samples train, "
        f"{counts['validation']:,} validate, {counts['unlabelled']:,} wait for their label"
    )


def _job(job: dict[str, Any]) -> str:
    progress = job["progress"] or {}
    reached = f", step {progress['step']}" if progress.get("step") else ""
    waits = "".join(f", waits: {b['detail']}" for b in job["blocked_by"] or ())
    return f"job {job['id']} of {job['model']}{reached}{waits}"
