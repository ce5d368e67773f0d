"""`honed versions …` and `honed fetch`: what training made."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from cli.client import Client, model_path
from cli.errors import Failure
from cli.options import Group, as_json, model_argument
from cli.output import echo_json, echo_table, file_size, plain
from cli.progress import Advance, bar
from storage.disk.digest import sha256_of

if TYPE_CHECKING:
    import httpx


@click.group(cls=Group)
def versions() -> None:
    """List versions."""


@versions.command("list")
@model_argument
@as_json
@click.pass_obj
def list_versions(client: Client, model: str, *, as_json: bool) -> None:
    """List the versions of MODEL."""
    found = list(client.items(model_path(model, "versions")))
    if as_json:
        echo_json(found)
        return
    echo_table(
        (
            "VERSION",
            "ALIASES",
            "METRIC",
            "BASELINE",
            "BASE SET",
            "VERDICT",
            "JOB",
            "SIZE",
            "SHA-256",
            "CREATED",
        ),
        (
            (
                version["version"],
                version["aliases"],
                *judged(version),
                version["job_id"],
                file_size(version["size_bytes"]),
                version["sha256"][:12],
                version["created_at"],
            )
            for version in found
        ),
    )


def judged(version: dict[str, Any]) -> tuple[str | None, str | None, str | None, str]:
    """What the gate measured of the version, of the one before, of both on the base set, and what
    it decided."""
    found = version["verdict"].get("validation") or {}
    decision = "promoted" if version["promoted"] else "not promoted"
    if found.get("candidate") is None:
        return None, None, None, decision if version["job_id"] else version["reason"]
    metric = version["verdict"]["policy"]["metric"]
    measured = f"{metric} {plain(found['candidate'])}"
    said = f"{decision}, {found['outcome']}" + _if_forgotten(version["verdict"])
    return measured, plain(found["baseline"]), on_base_set(version), said


def _if_forgotten(verdict: dict[str, Any]) -> str:
    found = [verdict.get(name) or {} for name in ("base_set", "best_on_base_set")]
    forgot = any(each.get("outcome") == "worse" for each in found)
    return ", worse on the base set" if forgot else ""


def on_base_set(version: dict[str, Any]) -> str | None:
    """What the version reaches on the base set, and the one before it."""
    found = version["verdict"].get("base_set") or {}
    if found.get("candidate") is None:
        return None
    metric = version["verdict"]["policy"]["metric"]
    before = found["baseline"]
    return f"{metric} {plain(found['candidate'])}" + (
        "" if before is None else f", before {plain(before)}"
    )


@click.command()
@model_argument
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where to write the model.",
)
@click.option("--version", type=int, help="A version's number. Default: the alias latest.")
@as_json
@click.pass_obj
def fetch(client: Client, model: str, *, output: Path, version: int | None, as_json: bool) -> None:
    """Fetch the newest inference model of MODEL, or one version.

    The file appears whole or not at all, its SHA-256 checked. A file that is the newest already is
    left alone.
    """
    which = ("latest",) if version is None else ("versions", version)
    found = client.get(model_path(model, *which))
    fetched = not (output.is_file() and sha256_of(output) == found["sha256"])
    if fetched:
        download(client, found, output)
    if as_json:
        echo_json({**found, "output": str(output), "fetched": fetched})
        return
    what = f"version {found['version']} of {model}"
    size = file_size(found["size_bytes"])
    click.echo(f"{output}: {what}, {size}" if fetched else f"{output} is {what} already")


def download(client: Client, version: dict[str, Any], output: Path, *, show: bool = True) -> None:
    """Write a version's model to `output`, in one move, its SHA-256 checked.

    show: whether a bar tells how far it is.
    """
    path = model_path(version["model"], "versions", version["version"], "model.onnx")
    partial = output.with_name(f".{output.name}.{os.getpid()}.partial")
    try:
        with (
            partial.open("wb") as file,
            client.stream("GET", path) as response,
            bar(version["size_bytes"], output.name, show=show) as advance,
        ):
            digest = _copy(response, file, advance)
        if digest != version["sha256"]:
            raise Failure(
                f"{path}: the body's SHA-256 is {digest}, it should be {version['sha256']}; "
                "nothing was written, fetch again"
            )
        partial.replace(output)
    except OSError as error:
        raise Failure(f"cannot write {output}: {error.strerror}") from error
    finally:
        partial.unlink(missing_ok=True)


def _copy(response: httpx.Response, file: IO[bytes], advance: Advance) -> str:
    """Returns the SHA-256 of what was copied."""
    digest = hashlib.sha256()
    for chunk in response.iter_bytes():
        digest.update(chunk)
        file.write(chunk)
        advance(len(chunk))
    return digest.hexdigest()
