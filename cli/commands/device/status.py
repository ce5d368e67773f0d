"""`honed status`: what the daemon is doing; `honed system`: what it runs on."""

from __future__ import annotations

from typing import Any

import click

from cli.client import Client
from cli.commands.jobs.jobs import in_spite
from cli.options import ClientCommand
from cli.output import echo, echo_fields, echo_json, echo_table, echo_text, wants_json
from storage.errors import counted, file_size

WORKING = ("running", "paused", "queued")


@click.command(cls=ClientCommand)
def status(client: Client) -> None:
    """Show whether the device trains or what prevents it, what it trains, and which jobs wait."""
    health = client.get("/readyz")
    device = client.get("/v1/device")
    models = list(client.items("/v1/models"))
    jobs = unfinished_jobs(client)
    if wants_json():
        told = {"health": health, "device": device, "models": models, "jobs": jobs}
        echo_json({"url": client.endpoint, **told})
        return
    echo_fields(
        [
            ("daemon", f"honed {health.get('version', '')} at {client.endpoint}"),
            ("database", restored_line(health)),
            ("data", damage_line(health)),
            ("disk", health.get("storage_full")),
            ("trains", verdict_line(device)),
            *((job["state"], _job(job)) for job in jobs),
            *(("model", _model(model)) for model in models),
        ]
    )


def unfinished_jobs(client: Client) -> list[dict[str, Any]]:
    """The job that runs, then those that are paused, then those that wait."""
    unfinished = client.items("/v1/jobs", state=WORKING)
    return sorted(unfinished, key=lambda job: WORKING.index(job["state"]))


def verdict_line(verdict: dict[str, Any]) -> str:
    """Whether the device trains, and everything that prevents it."""
    if verdict["eligible"]:
        return "yes, nothing keeps a job from training"
    return "not now: " + "; ".join(blocker["detail"] for blocker in verdict["blocked_by"])


def restored_line(health: dict[str, Any]) -> str | None:
    """A notice that the database was restored; None if it was not."""
    restored = health.get("database_restored")
    if restored is None:
        return None
    return (
        f"was damaged, and restored at {restored['restored_at']} from the backup of "
        f"{restored['backup_from']}: what is newer is lost"
    )


def damage_line(health: dict[str, Any]) -> str | None:
    """A notice of known damage; None if there is none."""
    damaged = health.get("damaged")
    if damaged is None:
        return None
    samples = [
        f"{counted(count, 'sample')} of {model}" for model, count in damaged["samples"].items()
    ]
    files = [", ".join(names) or sha256 for sha256, names in damaged["files"].items()]
    return f"damaged and set aside: {'; '.join(samples + files)}"


def _model(model: dict[str, Any]) -> str:
    counts = model["samples"]
    base = f"{counts['base']:,} base set, " if counts["base"] else ""
    return (
        f"{model['name']}: version {model['latest_version']}, samples: {counts['train']:,} train, "
        f"{counts['validation']:,} validation, {base}{counts['unlabelled']:,} unlabelled"
    )


def _job(job: dict[str, Any]) -> str:
    progress = job["progress"]
    total = f" of {progress['total_steps']}" if progress["total_steps"] else ""
    reached = f", step {progress['step']}{total}" if progress["step"] else ""
    return f"job {job['id']} of {job['model']}{reached}{in_spite(job)}{what_blocks(job)}"


def what_blocks(job: dict[str, Any]) -> str:
    """What a job waits for, to be appended to what is said of it; empty for nothing."""
    return "".join(f", waits: {condition['detail']}" for condition in job["blocked_by"])


@click.command(cls=ClientCommand)
def system(client: Client) -> None:
    """Show what the running daemon runs on: versions, findings, its own backups.

    `honed doctor` checks more, from this command's own environment, and tries the engine.
    """
    echo(client.get("/v1/system"), _echo_system)


def _echo_system(system: dict[str, Any]) -> None:
    echo_fields([*system["versions"].items(), ("data folder", system["data_dir"])])
    echo_text()
    rows = ((row["status"], row["name"], row["detail"], row["remedy"]) for row in system["checks"])
    echo_table(("STATUS", "CHECK", "DETAIL", "REMEDY"), rows)
    echo_text()
    backups = ((copy["made_at"][:16], file_size(copy["size_bytes"])) for copy in system["backups"])
    echo_table(("BACKUP", "SIZE"), backups)
