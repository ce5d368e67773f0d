"""`honed versions …` and `honed variants`: the results of training."""

from __future__ import annotations

from typing import Any

import click

from cli import completion
from cli.client import Client, model_path
from cli.options import ClientCommand, Group, model_argument, version_argument
from cli.output import Columns, echo, echo_fields, echo_records, plain
from storage.errors import file_size


@click.group(cls=Group)
def versions() -> None:
    """List and show versions, and what they were trained on."""


@versions.command("list")
@model_argument
def list_versions(client: Client, model: str) -> None:
    """List the versions of MODEL."""
    columns: Columns = {
        "VERSION": "version",
        "ALIASES": "aliases",
        "METRIC": lambda version: judged(version)[0],
        "BASELINE": lambda version: judged(version)[1],
        "BASE SET": lambda version: judged(version)[2],
        "VERDICT": lambda version: judged(version)[3],
        "JOB": "job_id",
        "SIZE": lambda version: file_size(version["size_bytes"]),
        "SHA-256": lambda version: version["sha256"][:12],
        "CREATED": "created_at",
    }
    echo_records(list(client.items(model_path(model, "versions"))), columns)


@versions.command("show")
@model_argument
@version_argument
def show(client: Client, model: str, version: str) -> None:
    """Show VERSION of MODEL, its number or an alias: its metrics, and what the gate decided."""
    echo(find_version(client, model, version), _echo_version)


@versions.command("samples")
@model_argument
@version_argument
def seen_samples(client: Client, model: str, version: str) -> None:
    """List the ids of the samples that VERSION of MODEL was trained on."""
    number = find_version(client, model, version)["version"]
    samples = list(client.items(model_path(model, "versions", number, "samples")))
    echo_records(samples, {"ID": "id", "DELETED": "deleted"})


@click.command(cls=ClientCommand)
@model_argument
@click.argument("version", default="latest", shell_complete=completion.versions)
def variants(client: Client, model: str, version: str) -> None:
    """List the other forms of VERSION of MODEL that were made; honed fetch --variant makes one."""
    forms = find_version(client, model, version)["variants"]
    columns: Columns = {
        "VARIANT": "variant",
        "METHOD": "method",
        "BYTES": "size_bytes",
        "METRICS": "metrics",
        "VERDICT": "reason",
        "CREATED": "created_at",
    }
    echo_records(forms, columns)


def _echo_version(version: dict[str, Any]) -> None:
    echo_fields(
        [
            ("model", version["model"]),
            ("version", version["version"]),
            ("aliases", plain(version["aliases"])),
            ("gate", version["reason"]),
            ("metrics", scalars(version["metrics"])),
            ("baseline", scalars(version["baseline"])),
            ("base set", on_base_set(version)),
            ("job", version["job_id"]),
            ("classes", version["classes"] and plain(version["classes"])),
            ("variants", plain([variant["variant"] for variant in version["variants"]])),
            ("size", file_size(version["size_bytes"])),
            ("sha-256", version["sha256"]),
            ("created", version["created_at"]),
        ]
    )


def scalars(metrics: dict[str, Any] | None) -> str | None:
    """The scalars among metrics, without confusion matrices."""
    numbers = {k: v for k, v in (metrics or {}).items() if isinstance(v, int | float)}
    return plain(numbers) if numbers else None


def judged(version: dict[str, Any]) -> tuple[str | None, str | None, str | None, str]:
    """The gate's metrics of the version, of the one before, of both on the base set, and its
    decision."""
    validation = version["verdict"].get("validation") or {}
    decision = "promoted" if version["promoted"] else "not promoted"
    if validation.get("candidate") is None:
        return None, None, None, decision if version["job_id"] else version["reason"]
    measured = f"{_metric(version)} {plain(validation['candidate'])}"
    said = f"{decision}, {validation['outcome']}" + _if_forgotten(version["verdict"])
    return measured, plain(validation["baseline"]), on_base_set(version), said


def _if_forgotten(verdict: dict[str, Any]) -> str:
    comparisons = [verdict.get(name) or {} for name in ("base_set", "best_on_base_set")]
    forgot = any(comparison.get("outcome") == "worse" for comparison in comparisons)
    return ", worse on the base set" if forgot else ""


def on_base_set(version: dict[str, Any]) -> str | None:
    """The metrics of the version and of the one before it on the base set."""
    comparison = version["verdict"].get("base_set") or {}
    if comparison.get("candidate") is None:
        return None
    before = comparison["baseline"]
    return f"{_metric(version)} {plain(comparison['candidate'])}" + (
        "" if before is None else f", before {plain(before)}"
    )


def _metric(version: dict[str, Any]) -> str:
    policy = version["verdict"]["policy"]
    label = policy.get("label")
    return str(policy["metric"]) if label is None else f"{policy['metric']} of {label}"


def find_version(client: Client, model: str, which: str | int) -> dict[str, Any]:
    """A version by its number, or by an alias, as the API describes it."""
    if which == "latest":
        path = model_path(model, "latest")
    elif str(which).isdecimal():
        path = model_path(model, "versions", which)
    else:
        named = client.get(model_path(model, "aliases", which))
        path = model_path(model, "versions", named["version"])
    return client.get(path)
