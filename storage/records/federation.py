"""Rounds of federated training, and the privacy that they have spent."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from msgspec import Struct, field

from storage.records.jobs import Job, NewJob

FileRole = Literal["parameters", "update", "residual"]
"""Roles of a job's files: the parameters that it starts from; the update that a round sends; and
the error of its compression, which the next round adds."""
SENT = "parameters"
"""`start` and `trigger` of a job that starts from uploaded parameters, and makes a version."""
ROUND = "round"
"""`start` and `trigger` of a job whose outcome is an update."""


class PrivacySpent(Struct, frozen=True):
    """rho: sum of 1 / (2 z²) over the updates made with noise, z their noise multipliers.

    rounds, unnoised: how many updates were made with noise, and without.
    """

    rho: float = 0.0
    rounds: int = 0
    unnoised: int = 0

    def at_least(self, other: PrivacySpent) -> PrivacySpent:
        """The larger of each field."""
        return PrivacySpent(
            max(self.rho, other.rho),
            max(self.rounds, other.rounds),
            max(self.unnoised, other.unnoised),
        )


class NewRound(Struct, frozen=True):
    """A round to be queued. number: the server's. terms: clipping, noise, compression, as applied.

    federation: the one that requests it. deadline: None for none.
    """

    job: NewJob
    federation: str
    number: int
    terms: dict[str, Any]
    deadline: datetime | None


class Round(Struct, frozen=True):
    """A round and its job. outcome: the update's sizes and norms, empty until there is one.

    The other fields are those of NewRound.
    """

    job: Job
    federation: str
    number: int
    terms: dict[str, Any]
    deadline: datetime | None
    outcome: dict[str, Any] = field(default_factory=dict)
