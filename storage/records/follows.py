"""Followed sources: where new bases of a model come from, and what came of asking there."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct


class FollowTerms(Struct, frozen=True):
    """What a person sets.

    source: `oci://…` or `https://…`. name: by which the vendor's statements name the model. keys:
    public keys (PEM), one of which must have signed. hosts: others that the source may redirect to.
    percent: the share of all devices that takes what is offered. report: where one report on each
    upgrade is sent, None for none.
    """

    source: str
    name: str
    keys: tuple[str, ...]
    hosts: tuple[str, ...] = ()
    every_hours: float = 24.0
    percent: float = 100.0
    report: str | None = None


class OfferedBase(Struct, frozen=True):
    """What a signed statement offers. percent: the share of all devices it is meant for."""

    version: int
    sha256: str
    size_bytes: int
    expires_at: datetime
    percent: float = 100.0


class FollowError(Struct, frozen=True):
    """Why the last try did not go on, and when."""

    code: str
    detail: str
    at: datetime


class FollowProgress(Struct, frozen=True):
    """What came of asking.

    mark: of the source's answer that was dealt with (an ETag, or a digest). asked_at: the last
    time. failures: in a row, of the network. offered: the newest statement that held; no lower
    version is taken. taken: the newest whose upgrade was begun, as the job `job_id`.
    reported: the version whose upgrade was reported last.
    """

    mark: str | None = None
    asked_at: datetime | None = None
    next_at: datetime | None = None
    failures: int = 0
    offered: OfferedBase | None = None
    taken: int | None = None
    taken_at: datetime | None = None
    job_id: int | None = None
    reported: int | None = None
    error: FollowError | None = None


class Follow(Struct, frozen=True):
    """A model's followed source. set_at: when the terms were set last."""

    model_id: int
    model: str
    terms: FollowTerms
    created_at: datetime
    set_at: datetime
    progress: FollowProgress = FollowProgress()

    @property
    def interval(self) -> timedelta:
        """Between two questions."""
        return timedelta(hours=self.terms.every_hours)

    def is_due(self, now: datetime) -> bool:
        """Whether to ask now; a clock that was set back does not delay it for longer."""
        next_at = self.progress.next_at
        return next_at is None or not now < next_at <= now + self.interval


Told = tuple[str, dict[str, Any]]
"""An event's type and data."""
