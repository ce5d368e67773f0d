"""Rounds of federated training, and what they have spent of a model's privacy."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from storage.records.jobs import Job, NewJob

FileRole = Literal["parameters", "update", "residual"]
"""Of files that a job is sent or makes: what it begins with; what leaves of a round; and what its
compression left out, which the next round adds."""
SENT = "parameters"
"""`start` and `trigger` of a job that begins with parameters that were sent, and becomes a version.
"""
ROUND = "round"
"""`start` and `trigger` of a job whose outcome is an update."""


@dataclass(frozen=True, slots=True)
class PrivacySpent:
    """rho: sum of 1 / (2 z²) over the rounds that left with noise, z their noise multipliers.

    rounds, unnoised: how many updates were made with noise, and without.
    """

    rho: float = 0.0
    rounds: int = 0
    unnoised: int = 0

    def at_least(self, other: PrivacySpent) -> PrivacySpent:
        """The larger of each."""
        return PrivacySpent(
            max(self.rho, other.rho),
            max(self.rounds, other.rounds),
            max(self.unnoised, other.unnoised),
        )


@dataclass(frozen=True, slots=True)
class NewRound:
    """A round to be queued. number: the server's. terms: clipping, noise, compression, as applied.

    federation: who asks. deadline: None for none.
    """

    job: NewJob
    federation: str
    number: int
    terms: dict[str, Any]
    deadline: datetime | None


@dataclass(frozen=True, slots=True)
class Round:
    """A round and its job. outcome: what was made, sizes and norms, empty before.

    The other fields are those of NewRound.
    """

    job: Job
    federation: str
    number: int
    terms: dict[str, Any]
    deadline: datetime | None
    outcome: dict[str, Any] = field(default_factory=dict)
