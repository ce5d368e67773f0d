"""What became of an upload: what was stored, and every bad sample up to a bound."""

from __future__ import annotations

from dataclasses import dataclass

from service.errors import InvalidInput
from storage.errors import Problem
from storage.samples.staging import Staging

MAX_LISTED = 1000
"""An upload with more faults than this is told the first, and the count of the others."""


class Faults:
    """Collects what is wrong with an upload, in bounded memory."""

    def __init__(self) -> None:
        self._problems: list[Problem] = []
        self.samples = 0

    def sample(self, problems: list[Problem]) -> None:
        """Note one bad sample and all that is wrong with it."""
        self.samples += 1
        room = MAX_LISTED - len(self._problems)
        self._problems.extend(problems[:room])

    def listed(self) -> tuple[Problem, ...]:
        """The problems, closed by a line that counts the samples when some are not listed."""
        if len(self._problems) < MAX_LISTED:
            return tuple(self._problems)
        more = Problem("", f"the list ends here; {self.samples} samples are bad in all")
        return (*self._problems, more)

    def refuse(self, total: int) -> None:
        """Raises InvalidInput if there is any fault; nothing is stored then."""
        if self.samples:
            raise InvalidInput(
                f"{self.samples} of {total} samples are bad, so none was stored; "
                "?on_error=skip keeps the good ones",
                problems=self.listed(),
            )


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
