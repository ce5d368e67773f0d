"""What became of an upload."""

from __future__ import annotations

from dataclasses import dataclass

from service.samples.ingest.faults import Faults
from storage.errors import Problem
from storage.samples.staging import Staging


@dataclass(frozen=True, slots=True)
class IngestResult:
    """ids: first and last of the accepted samples, None if there are none.

    rejected: bad samples that were left out; problems: what was wrong with them. evicted: samples
    that the model's quota took away.
    """

    accepted: int
    duplicates: int
    ids: tuple[int, int] | None
    rejected: int
    problems: tuple[Problem, ...]
    evicted: int = 0


def commit(staging: Staging, faults: Faults) -> IngestResult:
    """Store what is staged, durably."""
    stored = staging.commit()
    first, last = stored.first_id, stored.last_id
    return IngestResult(
        accepted=stored.accepted,
        duplicates=stored.duplicates,
        ids=(first, last) if first is not None and last is not None else None,
        rejected=faults.samples,
        problems=faults.listed(),
        evicted=stored.evicted,
    )
