"""`honed sign`: the vendor's end of followed sources; docs/following.md tells the rest."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cli import assignments
from cli.options import FILE, NEW_FILE, as_json
from cli.output import echo, echo_fields
from service.follow.keys import key_id, pem_of
from service.follow.statement import SUFFIX, SignedFile, Statement, signed_by, verified
from storage.disk.digest import sha256_of
from storage.disk.durable import write_file

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_DATE = click.DateTime(formats=["%Y-%m-%d", "%Y-%m-%dT%H:%M:%SZ"])


@click.command("sign")
@click.argument("model_file", type=FILE, metavar="MODEL.onnx")
@click.option(
    "--key",
    "key_file",
    required=True,
    type=NEW_FILE,
    help="Private Ed25519 key, as PEM without a password.",
)
@click.option(
    "--make-key", is_flag=True, help="Make the key if there is no such file, and KEY.pub."
)
@click.option(
    "--name", help="The model's name, as devices follow it. Default: the file's, without .onnx."
)
@click.option("--version", type=click.IntRange(min=1), required=True, help="Rises with each file.")
@click.option(
    "--expires",
    type=_DATE,
    required=True,
    help="Until when devices take the file: a date, or a time in UTC.",
)
@click.option("--tokenizer", type=FILE, help="The tokenizer.json that goes with the file.")
@click.option(
    "--spec", multiple=True, metavar="NAME=VALUE", help="A field of the upgrade's `spec`."
)
@click.option(
    "--percent",
    type=click.FloatRange(min=0, max=100, min_open=True),
    default=100.0,
    help="Share of all devices that takes it.",
)
@as_json
def sign(
    model_file: Path,
    *,
    key_file: Path,
    make_key: bool,
    name: str | None,
    version: int,
    expires: datetime,
    tokenizer: Path | None,
    spec: tuple[str, ...],
    percent: float,
) -> None:
    """Sign MODEL.onnx as a new base that devices follow: writes MODEL.onnx.sig beside it."""
    statement = Statement(
        name=name or model_file.stem,
        version=version,
        expires_at=expires.replace(tzinfo=timezone.utc),
        model=_signed(model_file),
        tokenizer=None if tokenizer is None else _signed(tokenizer),
        spec=assignments.parse(spec),
        percent=percent,
    )
    if statement.expires_at <= datetime.now(timezone.utc):
        raise click.UsageError(
            f"--expires {statement.expires_at:%Y-%m-%dT%H:%M:%SZ} is in the past"
        )
    key = _key(key_file, make=make_key)
    text = signed_by(statement, key)
    _require_taken(text, key)
    written = model_file.with_name(model_file.name + SUFFIX)
    write_file(written, text, mode=0o644)
    facts = {
        "file": str(written),
        "name": statement.name,
        "version": version,
        "sha256": statement.model.sha256,
        "expires_at": statement.expires_at.isoformat(),
        "key": key_id(key.public_key().public_bytes_raw()),
    }
    echo(facts, lambda facts: echo_fields(facts.items()))


def _require_taken(text: bytes, key: Ed25519PrivateKey) -> None:
    """Raises SignatureRefused, InvalidInput for what devices refuse, by the code they refuse by."""
    from service.models.upgrade.spec import upgrade_spec

    upgrade_spec(verified(text, [pem_of(key.public_key().public_bytes_raw())]).spec)


def _signed(path: Path) -> SignedFile:
    return SignedFile(sha256_of(path), path.stat().st_size)


def _key(path: Path, *, make: bool) -> Ed25519PrivateKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    if not path.exists():
        if not make:
            raise click.UsageError(f"there is no key {path}; --make-key makes one")
        return _make_key(path)
    try:
        key: Any = load_pem_private_key(path.read_bytes(), password=None)
    except (TypeError, ValueError) as error:
        told = f"{path} is no private key in PEM without a password: {error}"
        raise click.UsageError(told) from error
    if not isinstance(key, Ed25519PrivateKey):
        raise click.UsageError(f"{path} is a key of another kind; Ed25519 is needed")
    return key


def _make_key(path: Path) -> Ed25519PrivateKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key = Ed25519PrivateKey.generate()
    write_file(path, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public = path.with_name(path.name + ".pub")
    write_file(public, pem_of(key.public_key().public_bytes_raw()).encode(), mode=0o644)
    return key
