"""Ranks the samples that a person should review: unlabelled ones, and labels that may be wrong."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from service.errors import InvalidInput
from service.jobs import tasks
from service.jobs.child import ask_child
from service.processes.children import Children
from service.settings import Settings
from service.training.protocol.messages.comparison import Rank, Ranked, Ranks
from storage.errors import Problem
from storage.records.models import Model
from storage.records.samples import Sample
from storage.samples.filter import SampleFilter
from storage.store import Store

if TYPE_CHECKING:
    from numpy.typing import NDArray

NEWEST = 5000
"""Number of samples ranked, the newest ones."""
SUSPECT = 0.8
"""A label is suspect if its probability is a fifth or less. On 1,000 digits with 5 % wrong labels,
this found 78 to 86 % of the wrong ones, and 86 to 95 % of those found were wrong."""
MODELS_KEPT = 16


class Ranking(Struct, frozen=True):
    """The ranking by one version. ids, doubts: most doubtful first. labels, predicted: of labelled
    samples. newest: the highest id. classes: the model's class ids, by label index.
    """

    version: int
    classes: tuple[int, ...]
    newest: int
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

    def __init__(self, store: Store, settings: Settings, children: Children) -> None:
        self._store = store
        self._settings = settings
        self._children = children
        self._known: dict[tuple[int, Ranks], Ranking] = {}
        self._one_at_a_time = asyncio.Lock()

    async def ranked(
        self, model: Model, what: Ranks = "unlabelled", *, limit: int, after: int
    ) -> tuple[list[RankedSample], int]:
        """Up to `limit` samples from position `after` on, and the position after the last of them.

        what: all unlabelled ones, or those whose labels are suspect. Raises InvalidInput for a
        model without classes, ChildDied, NotFound.
        """
        _require_classes(model, what)
        async with self._one_at_a_time:
            ranking = await self._current(model, what)
        return await asyncio.to_thread(self._page, model, ranking, limit, after)

    async def _current(self, model: Model, what: Ranks) -> Ranking:
        version = await asyncio.to_thread(self._store.integrity.latest, model.id)
        newest = await asyncio.to_thread(self._newest, model, what)
        known = self._known.get((model.id, what))
        classes = model.signature.target.ids
        now = (version.version, classes, newest)
        if known is not None and (known.version, known.classes, known.newest) == now:
            return known
        work_dir = Path(tempfile.mkdtemp(prefix="rank-", dir=self._store.tmp_dir))
        try:
            task = tasks.rank_task(
                model, version, self._store, self._settings, newest=NEWEST, what=what
            )
            ranked = await self._ask(task)
        finally:
            await asyncio.to_thread(shutil.rmtree, work_dir)
        ranking = _sorted(ranked, now, what)
        self._known.pop((model.id, what), None)
        self._known[model.id, what] = ranking
        while len(self._known) > MODELS_KEPT:
            self._known.pop(next(iter(self._known)))
        return ranking

    async def _ask(self, task: Rank) -> Ranked:
        timeout_s = self._settings.prepare_timeout_s
        what = "the samples cannot be ranked"
        return await ask_child(self._children, task, Ranked, timeout_s=timeout_s, what=what)

    def _newest(self, model: Model, what: Ranks) -> int:
        where = SampleFilter(unlabelled=what == "unlabelled")
        rows = self._store.samples.list(model.id, where, limit=1, newest_first=True)
        return rows[0].id if rows else 0

    def _page(
        self, model: Model, ranking: Ranking, limit: int, after: int
    ) -> tuple[list[RankedSample], int]:
        """Skips deleted samples, and those whose label has changed since."""
        page: list[RankedSample] = []
        place = after
        while place < len(ranking.ids) and len(page) < limit:
            some = ranking.ids[place : place + limit].tolist()
            found = self._store.samples.by_ids(model.id, some)
            for id in some:  # noqa: A001
                sample = found.get(id)
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
        if model.loss != "cross_entropy" or target.shape:
            detail = "suspect labels need a model that gives each sample one class"
            raise InvalidInput("the filter is wrong", problems=[Problem("/query/suspect", detail)])
    elif model.loss not in ("cross_entropy", "bce_with_logits"):
        problem = Problem("/query/order", "uncertainty needs a model that classifies")
        raise InvalidInput("the order is wrong", problems=[problem])


def _sorted(ranked: Ranked, of: tuple[int, tuple[int, ...], int], what: Ranks) -> Ranking:
    """Most doubtful first; of labels only the suspect ones. of: version, classes, newest sample."""
    doubts = np.array(ranked.doubts)
    best = np.argsort(-doubts, kind="stable")
    ids = np.array(ranked.ids, np.int64)
    if what == "unlabelled":
        return Ranking(*of, ids[best], doubts[best], None, None)
    best = best[doubts[best] >= SUSPECT]
    labels, predicted = np.array(ranked.labels, np.int64), np.array(ranked.predicted, np.int64)
    return Ranking(*of, ids[best], doubts[best], labels[best], predicted[best])
