"""`honed tokens …`: tokens for apps."""

from __future__ import annotations

from typing import Any

import click

from cli import completion
from cli.client import Client
from cli.errors import Failure
from cli.options import Group, Time, given, named
from cli.output import (
    Columns,
    echo,
    echo_done,
    echo_fields,
    echo_json,
    echo_records,
    echo_text,
    plain,
    wants_json,
)
from service.access.principal import SCOPES

_LIMITS: dict[str, dict[str, Any]] = {
    "connections": {
        "type": int,
        "help": "Maximum number of requests open at once; event streams count. Default: 64.",
    },
    "uploads": {"type": int, "help": "Maximum number of uploads of samples at once."},
    "registrations": {"type": int, "help": "Maximum number of registrations of models at once."},
    "predictions_per_second": {
        "type": float,
        "help": "Maximum number of requests for predictions a second.",
    },
    "bytes_per_day": {
        "type": int,
        "help": "Maximum bytes of request bodies in a day (UTC).",
    },
}

MOMENTS = ("created_at", "last_used_at", "expires_at", "revoked_at")
token_argument = click.argument("token", shell_complete=completion.tokens)


@click.group(cls=Group)
def tokens() -> None:
    """Make tokens for apps and revoke them; docs/tokens.md explains the scopes."""


@tokens.command("create")
@click.argument("name")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    required=True,
    type=click.Choice([scope.value for scope in SCOPES]),
    help="What it may do; may be repeated.",
)
@click.option(
    "--model", "models", multiple=True, help="The only model that it may touch; may be repeated."
)
@click.option(
    "--expires", "expires_at", type=Time(ahead=True), help="When it ends: 30d, 12h, or a date."
)
@named(_LIMITS)
def create(client: Client, /, name: str, **options: Any) -> None:
    """Make a token called NAME and print its secret, which is shown this one time.

    honed tokens create camera --scope samples:write --model pets
    """
    limits = given({name: options.pop(name) for name in _LIMITS})
    body = {"name": name, "limits": limits, **given(options)}
    _echo_secret(client.post("/v1/tokens", body))


@tokens.command("list")
@click.option("--all", "everything", is_flag=True, help="Revoked ones too.")
def list_tokens(client: Client, *, everything: bool) -> None:
    """List tokens: what they may do, and when they were used last."""
    rows = [token for token in client.items("/v1/tokens") if everything or not token["revoked_at"]]
    columns: Columns = {
        "ID": "id",
        "NAME": "name",
        "SCOPES": "scopes",
        "MODELS": "models",
        "LAST USED": "last_used_at",
        "EXPIRES": "expires_at",
        "REVOKED": "revoked_at",
    }
    echo_records(rows, columns)


@tokens.command("show")
@token_argument
def show(client: Client, token: str) -> None:
    """Show TOKEN, its id or name: what it may do, its limits, its last use."""
    echo(_find(client, token), _echo_token)


@tokens.command("change")
@token_argument
@click.option("--name", help="Another name.")
@click.option(
    "--expires", "expires_at", type=Time(ahead=True), help="When it ends: 30d, 12h, or a date."
)
@named(_LIMITS)
def change(client: Client, /, token: str, **options: Any) -> None:
    """Change name, limits or end of TOKEN, its id or name. Scopes and models never change."""
    limits = given({name: options.pop(name) for name in _LIMITS})
    changes = given({**options, "limits": limits or None})
    if not changes:
        raise click.UsageError("name what to change: --name, --expires or a limit")
    path = f"/v1/tokens/{_find(client, token)['id']}"
    echo(client.patch(path, changes), _echo_token)


@tokens.command("revoke")
@token_argument
def revoke(client: Client, token: str) -> None:
    """End TOKEN, its id or name, for good; its open requests end within seconds."""
    row = _find(client, token)
    client.request("DELETE", f"/v1/tokens/{row['id']}")
    echo_done(f"token {row['id']} ({row['name']}) is revoked", revoked=row["id"])


@tokens.command("rotate")
@token_argument
def rotate(client: Client, token: str) -> None:
    """Give TOKEN, its id or name, a new secret; the old one counts no longer."""
    path = f"/v1/tokens/{_find(client, token)['id']}/rotate"
    _echo_secret(client.post(path))


def _find(client: Client, token: str) -> dict[str, Any]:
    """A token by its id, or a valid one by its name."""
    if token.isdecimal():
        return client.get(f"/v1/tokens/{token}")
    for known in client.items("/v1/tokens"):
        if known["name"] == token and not known["revoked_at"]:
            return known
    raise Failure(f"no valid token is named {token!r}; see `honed tokens list`")


def _echo_token(token: dict[str, Any]) -> None:
    echo_fields(
        [
            *((name, token[name]) for name in ("id", "name", "scopes")),
            ("models", token["models"] or "all models"),
            ("limits", given(token["limits"])),
            *((name[:-3].replace("_", " "), token[name]) for name in MOMENTS),
        ]
    )


def _echo_secret(token: dict[str, Any]) -> None:
    """Print only the secret on stdout, so that a script can store it for the app."""
    if wants_json():
        echo_json(token)
        return
    about = f"{plain(token['scopes'])} on {plain(token['models'] or 'all models')}"
    echo_text(f"token {token['id']} ({token['name']}): {about}", err=True)
    echo_text("This is its secret, and it is not shown again:", err=True)
    echo_text(token["secret"])
