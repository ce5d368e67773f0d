"""`honed models follow` and `unfollow`: the source that new bases of a model come from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from cli.client import Client, model_path
from cli.options import FILE, ClientCommand, given, model_argument
from cli.output import echo, echo_done, echo_fields
from service.follow.keys import key_id, public_key_bytes
from storage.database.codec import dump


@click.command("follow", cls=ClientCommand)
@model_argument
@click.argument("source", required=False)
@click.option("--key", "keys", type=FILE, multiple=True, help="A public key of the vendor (PEM).")
@click.option("--name", help="As the vendor's statements name the model. Default: MODEL.")
@click.option("--host", "hosts", multiple=True, help="Another host that SOURCE may redirect to.")
@click.option("--every-hours", type=float, help="How often it is asked. Default: 24.")
@click.option("--percent", type=float, help="Share of all devices that takes it. Default: 100.")
@click.option("--report", metavar="URL", help="Where one report on each upgrade goes, if at all.")
def follow(
    client: Client,
    /,
    model: str,
    source: str | None,
    *,
    keys: tuple[Path, ...],
    **others: Any,
) -> None:
    """Take new bases of MODEL from SOURCE, or without SOURCE: show what came of it.

    SOURCE: oci://registry/repository:tag or https://host/path/model.onnx. The same again asks at
    once again.
    """
    path = model_path(model, "follow")
    if source is None:
        if keys or any(others.values()):
            raise click.UsageError("name the SOURCE that these options are for")
        echo(client.get(path), _echo)
        return
    body = {"source": source, "keys": [_public(key) for key in keys], **given(others)}
    echo(client.put(path, body), _echo)


@click.command("unfollow", cls=ClientCommand)
@model_argument
def unfollow(client: Client, model: str) -> None:
    """Take no more new bases of MODEL; an upgrade that has begun goes on."""
    client.request("DELETE", model_path(model, "follow"))
    echo_done(f"{model} follows no source", model=model)


def _public(path: Path) -> str:
    """A key, which is checked here: a private one must not leave this machine."""
    pem = path.read_text("utf-8", errors="replace")
    try:
        public_key_bytes(pem)
    except ValueError as error:
        raise click.UsageError(f"{path}: {error}") from error
    return pem


def _echo(following: dict[str, Any]) -> None:
    offered, error = following["offered"], following["error"]
    echo_fields(
        [
            ("source", following["source"]),
            ("keys", ", ".join(key_id(public_key_bytes(key)) for key in following["keys"])),
            ("every", f"{following['every_hours']:g} h"),
            ("asked", following["asked_at"] or "never"),
            ("next", following["next_at"] or "now"),
            *(("blocked by", condition["detail"]) for condition in following["blocked_by"]),
            ("offered", offered and f"version {offered['version']}, {_size(following, offered)}"),
            ("expires", offered and offered["expires_at"]),
            (
                "in share",
                None if following["in_share"] is None else str(following["in_share"]).lower(),
            ),
            (
                "taken",
                following["taken"] and f"version {following['taken']} by job {following['job_id']}",
            ),
            ("report", following["report"]),
            ("report says", following["report_body"] and dump(following["report_body"])),
            ("error", error and f"{error['code']}: {error['detail']}"),
        ]
    )


def _size(follow: dict[str, Any], offered: dict[str, Any]) -> str:
    here = f", {follow['downloaded_bytes']} here" if follow["downloaded_bytes"] else ""
    return f"{offered['size_bytes']} bytes{here}"
