"""The statement that a vendor signs: which file is which version of a model, until when, for whom.

It lies in a DSSE envelope (https://github.com/secure-systems-lab/dsse, version 1), so that any
program which signs with Ed25519 can make one: the bytes that are signed name their own type, and
nothing is parsed before its signature holds.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta, Struct, field

from service.follow.errors import SignatureRefused, StatementExpired, VersionDowngraded
from service.follow.keys import key_id, public_key_bytes
from storage.database.codec import decode, encode
from storage.records.follows import OfferedBase

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

TYPE = "application/vnd.honed.base.v1+json"
"""What the signed bytes are."""
ENVELOPE_TYPE = "application/vnd.honed.statement.v1+json"
"""The media type of a file with an envelope, by which a registry's layer is found."""
SUFFIX, TOKENIZER_SUFFIX = ".sig", ".tokenizer.json"
"""What is added to the address of the file for that of its envelope, and of its tokenizer."""
MOST_BYTES = 256 << 10
"""The longest envelope that is read."""

Sha256 = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
Aware = Annotated[datetime, Meta(tz=True)]


class SignedFile(Struct, frozen=True, forbid_unknown_fields=True):
    """A file by its content."""

    sha256: Sha256
    size_bytes: Annotated[int, Meta(ge=1, le=2**50)]


class Statement(Struct, frozen=True, forbid_unknown_fields=True):
    """What is signed. A field that is not known here may be essential, and is refused.

    name: the vendor's, of the model. version: rises with every release. tokenizer: of a model
    of texts, if it changes. spec: as `PUT …/base` takes
    it. percent: the share of all devices that the release is meant for; a later statement of the
    same version may raise it.
    """

    name: Annotated[str, Meta(min_length=1, max_length=256)]
    version: Annotated[int, Meta(ge=1, lt=2**53)]
    expires_at: Aware
    model: SignedFile
    tokenizer: SignedFile | None = None
    spec: dict[str, Any] = field(default_factory=dict)
    percent: Annotated[float, Meta(gt=0, le=100)] = 100.0

    @property
    def size_bytes(self) -> int:
        """Of all files."""
        return sum(file.size_bytes for file in (self.model, self.tokenizer) if file is not None)


class DsseSignature(Struct, frozen=True):
    """One signature, in base64. keyid: a hint only, which is not believed."""

    sig: str
    keyid: str = ""


class Envelope(Struct, frozen=True):
    """DSSE's envelope, with its own field names. payload: in base64."""

    payload: str
    payloadType: str  # noqa: N815 - DSSE's name
    signatures: list[DsseSignature]


def signed_by(statement: Statement, key: Ed25519PrivateKey) -> bytes:
    """The envelope of a statement, as it is stored beside the file."""
    return envelope(encode(statement), key)


def envelope(payload: bytes, key: Ed25519PrivateKey) -> bytes:
    """The envelope of a payload."""
    signature = base64.b64encode(key.sign(authenticated(TYPE, payload))).decode()
    signatures = [DsseSignature(signature, key_id(key.public_key().public_bytes_raw()))]
    return encode(Envelope(base64.b64encode(payload).decode(), TYPE, signatures)) + b"\n"


def authenticated(kind: str, payload: bytes) -> bytes:
    """The bytes that DSSE signs: the type and the payload, each with its length."""
    return b"DSSEv1 %d %s %d %s" % (len(kind.encode()), kind.encode(), len(payload), payload)


def verified(text: bytes, keys: Iterable[str]) -> Statement:
    """The statement in an envelope, if one of these public keys (PEM) has signed it.

    Raises SignatureRefused.
    """
    try:
        envelope = decode(text, Envelope)
        payload = base64.b64decode(envelope.payload, validate=True)
        signatures = [base64.b64decode(each.sig, validate=True) for each in envelope.signatures]
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        raise SignatureRefused(f"the statement is no DSSE envelope: {error}") from error
    signed = authenticated(envelope.payloadType, payload)
    publics = [public_key_bytes(pem) for pem in keys]
    if not any(_holds(public, signature, signed) for signature in signatures for public in publics):
        pinned = ", ".join(map(key_id, publics))
        raise SignatureRefused(f"none of the pinned keys ({pinned}) has signed the statement")
    if envelope.payloadType != TYPE:
        raise SignatureRefused(f"a {envelope.payloadType!r} is signed, which is no {TYPE!r}")
    try:
        return decode(payload, Statement)
    except (msgspec.DecodeError, RecursionError) as error:
        raise SignatureRefused(f"what is signed is no statement of a base: {error}") from error


def judged(
    statement: Statement, *, name: str, seen: OfferedBase | None, now: datetime
) -> OfferedBase:
    """What it offers. seen: the newest offer that was judged before.

    Raises SignatureRefused for another model's statement, StatementExpired, VersionDowngraded.
    """
    if statement.name != name:
        raise SignatureRefused(
            f"the statement is for the model {statement.name!r}, and {name!r} is followed; set "
            '"name" if the vendor calls the model so'
        )
    require_fresh(statement.version, statement.expires_at, now)
    if seen is not None:
        _require_newer(statement, seen)
    return OfferedBase(
        version=statement.version,
        sha256=statement.model.sha256,
        size_bytes=statement.size_bytes,
        expires_at=statement.expires_at,
        percent=statement.percent,
    )


def require_fresh(version: int, expires_at: datetime, now: datetime) -> None:
    """Raises StatementExpired: whoever keeps newer statements from a device is found out so."""
    if expires_at <= now:
        raise StatementExpired(
            f"the statement of version {version} expired on {expires_at:%Y-%m-%d %H:%M} UTC: the "
            "vendor has not renewed it, or someone keeps newer ones from this device"
        )


def draw(identity: str, model: str) -> float:
    """A number from 0 to 100, always the same for a device and a model, evenly spread."""
    digest = hashlib.sha256(f"{identity}\n{model}".encode()).digest()
    return int.from_bytes(digest[:6], "big") / 2**48 * 100


def is_chosen(drawn: float, *, of_operator: float, of_vendor: float) -> bool:
    """Whether a device takes part in a rollout: both shares must take it."""
    return drawn < min(of_operator, of_vendor)


def _require_newer(statement: Statement, seen: OfferedBase) -> None:
    if statement.version < seen.version:
        raise VersionDowngraded(
            f"the source offers version {statement.version}, and has offered {seen.version} "
            "before; versions only rise"
        )
    if statement.version == seen.version and statement.model.sha256 != seen.sha256:
        raise VersionDowngraded(
            f"version {statement.version} was the file {seen.sha256} before, and is now "
            f"{statement.model.sha256}; another file needs a higher version"
        )


def _holds(public: bytes, signature: bytes, signed: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, signed)
    except InvalidSignature:
        return False
    return True
