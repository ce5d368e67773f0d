"""Two versions side by side on today's validation samples, and the samples on which they differ."""

from __future__ import annotations

import asyncio
import hashlib

from msgspec import Struct
from msgspec.structs import replace

from service.jobs.short_tasks import AnswerCache, ShortTasks
from service.jobs.tasks import classes_known, measurement, other_measurement
from service.training.protocol.messages.comparison import Compare, Compared
from service.training.protocol.messages.shared import Measurement
from storage.records.models import Model
from storage.records.versions import Version
from storage.store import Store

MOST_SAMPLES = 500
"""Samples listed for each side; the total is given as well."""
COMPARISONS_KEPT = 32


class SideBySide(Struct, frozen=True):
    """before, after: the versions. found: their results on the same samples."""

    before: Version
    after: Version
    found: Compared


class VersionComparison:
    """Compares on demand, one pair at a time; results are cached while the samples stay the same.

    Belongs to the event loop.
    """

    def __init__(self, store: Store, short_tasks: ShortTasks) -> None:
        self._store = store
        self._short_tasks = short_tasks
        self._answers = AnswerCache[str, Compared](COMPARISONS_KEPT)

    async def compare(self, model: Model, before: int, after: int) -> SideBySide:
        """Raises NotFound, Damaged, ChildDied."""
        first, second, task, key = await asyncio.to_thread(self._asked, model, before, after)
        failure = "the versions cannot be compared"
        compared = await self._answers.get(
            key, key, lambda: self._short_tasks.ask(task, Compared, failure=failure)
        )
        return SideBySide(first, second, compared)

    def _asked(
        self, model: Model, before: int, after: int
    ) -> tuple[Version, Version, Compare, str]:
        """The versions, the task, and a cache key of the task and the samples."""
        store, find = self._store, self._store.versions.get
        first, second = find(model.id, before), find(model.id, after)
        model = store.models.get_by_id(model.id, base=second.base)
        other = other_measurement(model, first, store)
        task = Compare(
            candidate=str(store.integrity.file(second.file.sha256)),
            baseline=str(store.integrity.file(first.file.sha256)),
            measurement=_of_validation(measurement(model, store)),
            most=MOST_SAMPLES,
            candidate_classes=classes_known(model, second),
            baseline_classes=classes_known(model, first),
            baseline_measurement=None if other is None else _of_validation(other),
        )
        samples = store.sample_stats.validation_digest(model.id)
        return first, second, task, hashlib.sha256(f"{task!r} {samples}".encode()).hexdigest()


def _of_validation(what: Measurement) -> Measurement:
    """On today's validation samples only: neither the reference set nor the base set."""
    return replace(what, reference=False, base_set=False)
