"""Why what a followed source offers is not taken."""

from __future__ import annotations

from service.errors import ChildDied
from storage.errors import Busy, HoneError, StorageBroken, StorageFull


class SourceUnreachable(HoneError):
    """The source did not answer, or the connection broke too often; it is asked again soon."""


class SourceRefused(HoneError):
    """The source's answer is not one that can be used; the detail says what it was."""


class RedirectRefused(HoneError):
    """The source redirects to a host that `hosts` does not allow, or to plain HTTP."""


class SignatureRefused(HoneError):
    """No pinned key has signed the statement, or what is signed is no statement for this model."""


class StatementExpired(HoneError):
    """The newest statement has expired: the vendor has not renewed it, or it is kept from here."""


class VersionDowngraded(HoneError):
    """The source offers a lower version than it did before, or another file of the same one."""


class ContentMismatch(HoneError):
    """The downloaded bytes are not those that were signed: another size, or another digest."""


class BaseRefused(HoneError):
    """The file was signed and whole, and the model cannot take it; the detail says why."""


ALL: tuple[type[HoneError], ...] = (
    SourceUnreachable,
    SourceRefused,
    RedirectRefused,
    SignatureRefused,
    StatementExpired,
    VersionDowngraded,
    ContentMismatch,
    BaseRefused,
)
NEWS = frozenset(kind.code for kind in ALL) - {SourceUnreachable.code}
"""Codes that are told as an event: what is not the network's fault."""
_OF_DEVICE: tuple[type[HoneError], ...] = (Busy, StorageFull, StorageBroken)
_OF_CHILD: dict[str, type[HoneError]] = {kind.code: kind for kind in (*ALL, *_OF_DEVICE)}


def named(code: str, detail: str) -> HoneError:
    """The error that a child has told; a bug of ours as ChildDied."""
    return _OF_CHILD.get(code, ChildDied)(detail)
