"""What the daemon and the child that asks a source tell each other: one line of JSON each."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from storage.database.codec import decode, encode
from storage.records.follows import FollowTerms, OfferedBase


class Login(Struct, frozen=True):
    """A registry's user and password. Never logged."""

    username: str
    password: str


class VendorReport(Struct, frozen=True):
    """What is sent to a vendor, and where."""

    url: str
    body: dict[str, Any]


class Inquiry(Struct, frozen=True):
    """The child's task. report: to be sent first.

    mark, offered, taken: as `FollowProgress` has them. draw: of this device, 0 to 100, below which
    a release's share takes it. folder: for downloads, which may hold some. reserve_bytes: free
    space that stays.
    """

    terms: FollowTerms
    draw: float
    folder: str
    reserve_bytes: int
    mark: str | None = None
    offered: OfferedBase | None = None
    taken: int | None = None
    login: Login | None = None
    report: VendorReport | None = None


class Reported(Struct, frozen=True, tag="reported"):
    """Whether the report was taken; error: why not."""

    error: str | None = None


class Unchanged(Struct, frozen=True, tag="unchanged"):
    """The source has nothing but what was dealt with before. The last message."""


class Offers(Struct, frozen=True, tag="offers"):
    """A statement that holds. wanted: whether its files follow; if not, it is the last message."""

    base: OfferedBase
    mark: str
    wanted: bool


class Downloading(Struct, frozen=True, tag="downloading"):
    """How much of the files is here, about once a second."""

    size_bytes: int


class Fetched(Struct, frozen=True, tag="fetched"):
    """The files are here and are those that were signed. The last message. spec: as signed."""

    model: str
    tokenizer: str | None
    spec: dict[str, Any]


class FetchFailed(Struct, frozen=True, tag="failed"):
    """Why nothing more is done now: an error's code and detail. The last message."""

    code: str
    detail: str


FetchMessage = Reported | Unchanged | Offers | Downloading | Fetched | FetchFailed
LAST_MESSAGES = (Unchanged, Fetched, FetchFailed)


def line(value: Inquiry | FetchMessage) -> bytes:
    """As one line."""
    return encode(value) + b"\n"


def inquiry_in(text: bytes) -> Inquiry:
    """Raises ValueError."""
    return decode(text, Inquiry)


def message_in(text: bytes) -> FetchMessage:
    """Raises ValueError."""
    message: FetchMessage = decode(text, FetchMessage)
    return message
