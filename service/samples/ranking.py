"""Ranks the samples that a person should review: unlabelled ones, and labels that may be wrong."""

from __future__ import annotations

import asyncio

import numpy as np
from msgspec import Struct

from service.errors import InvalidInput
from service.jobs.short_tasks import AnswerCache, ShortTasks
from service.jobs.tasks import rank_task
from service.training.protocol.messages.comparison import Ranked, Ranks
from service.training.tasks import TASKS
from storage.arrays import NDArray
from storage.records.models import Model
from storage.records.samples import Sample
from storage.samples.filter import SampleFilter
from storage.store import Store

NEWEST = 5000
"""Number of samples ranked, the newest ones."""
SUSPECT = 0.8
"""A label is suspect if its probability is a fifth or less. On 1,000 digits with 5 % wrong labels,
this found 78 to 86 % of the wrong ones, and 86 to 95 % of those found were wrong."""
MODELS_KEPT = 16


class Ranking(Struct, frozen=True):
    """ids, doubts: most doubtful first. labels, predicted: of labelled samples."""

    ids: NDArray[np.int64]
    doubts: NDArray[np.float64]
    labels: NDArray[np.int64] | None
    predicted: NDArray[np.int64] | None


class RankedSample(Struct, frozen=True):
    """A sample and the version's doubt about it: see `Ranked`. predicted: a class."""

    sample: Sample
    doubt: float
    predicted: int | None = None


class SampleRanking:
    """Ranks a model's samples; a ranking is cached until a newer version or sample exists.

    Belongs to the event loop.
    """

    def __init__(self, store: Store, short_tasks: ShortTasks) -> None:
        self._store = store
        self._short_tasks = short_tasks
        self._rankings = AnswerCache[tuple[int, Ranks], Ranking](MODELS_KEPT)

    async def ranked(
        self, model: Model, what: Ranks = "unlabelled", *, limit: int, after: int
    ) -> tuple[list[RankedSample], int]:
        """Up to `limit` samples from position `after` on, and the position after the last of them.

        what: all unlabelled ones, or those whose labels are suspect. Raises InvalidInput for a
        model without classes, ChildDied, NotFound.
        """
        _require_classes(model, what)
        ranking = await self._current(model, what)
        return await asyncio.to_thread(self._page, model, ranking, limit, after)

    async def _current(self, model: Model, what: Ranks) -> Ranking:
        version = await asyncio.to_thread(self._store.integrity.latest, model.id)
        where = SampleFilter(unlabelled=what == "unlabelled")
        newest = await asyncio.to_thread(self._store.samples.newest_id, model.id, where)
        source = (version.version, model.signature.target.ids, newest)

        async def rank() -> Ranking:
            task = await asyncio.to_thread(
                rank_task, model, version, self._store, newest=NEWEST, what=what
            )
            failure = "the samples cannot be ranked"
            return _sorted(await self._short_tasks.ask(task, Ranked, failure=failure), what)

        return await self._rankings.get((model.id, what), source, rank)

    def _page(
        self, model: Model, ranking: Ranking, limit: int, after: int
    ) -> tuple[list[RankedSample], int]:
        """Skips deleted samples, and those whose label has changed since."""
        page: list[RankedSample] = []
        place = after
        while place < len(ranking.ids) and len(page) < limit:
            some = ranking.ids[place : place + limit].tolist()
            samples = self._store.samples.by_ids(model.id, some)
            for id in some:  # noqa: A001
                sample = samples.get(id)
                if len(page) == limit:
                    break
                label = None if ranking.labels is None else int(ranking.labels[place])
                if sample is not None and sample.label == label and sample.quarantine is None:
                    predicted = None if ranking.predicted is None else int(ranking.predicted[place])
                    page.append(RankedSample(sample, float(ranking.doubts[place]), predicted))
                place += 1
        return page, place


def _require_classes(model: Model, what: Ranks) -> None:
    if what == "labels":
        target = model.signature.target
        if not TASKS[model.loss].has_classes or target.shape:
            detail = "suspect labels need a model that gives each sample one class"
            raise InvalidInput.at("/query/suspect", detail, title="the filter is wrong")
    elif not TASKS[model.loss].has_doubt:
        detail = "uncertainty needs a model that classifies"
        raise InvalidInput.at("/query/order", detail, title="the order is wrong")


def _sorted(ranked: Ranked, what: Ranks) -> Ranking:
    """Most doubtful first; of labels only the suspect ones."""
    doubts = np.array(ranked.doubts)
    best = np.argsort(-doubts, kind="stable")
    ids = np.array(ranked.ids, np.int64)
    if what == "unlabelled":
        return Ranking(ids[best], doubts[best], None, None)
    best = best[doubts[best] >= SUSPECT]
    labels, predicted = np.array(ranked.labels, np.int64), np.array(ranked.predicted, np.int64)
    return Ranking(ids[best], doubts[best], labels[best], predicted[best])
