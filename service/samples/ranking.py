"""Which unlabelled samples are worth asking about: those the current version doubts most."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from service.errors import ChildDied, InvalidInput
from service.jobs import tasks
from service.jobs.child import Child
from service.processes.children import Children
from service.settings import Settings
from service.training.protocol.messages.comparison import Rank, Ranked
from service.training.protocol.messages.shared import Failed
from storage.errors import Problem
from storage.records.models import Model
from storage.records.samples import Sample
from storage.samples.filter import SampleFilter
from storage.store import Store

NEWEST = 5000
"""Unlabelled samples that are looked at, the newest ones."""
MODELS_KEPT = 16


@dataclass(frozen=True, slots=True)
class Ranking:
    """Of one version. ids, entropies (nats): most doubtful first. newest: the highest id."""

    version: int
    ids: NDArray[np.int64]
    entropies: NDArray[np.float64]
    newest: int


@dataclass(frozen=True, slots=True)
class RankedSample:
    """A sample without a label, and the entropy of what the version makes of it, in nats."""

    sample: Sample
    entropy: float


class SampleRanking:
    """Ranks a model's unlabelled samples; a ranking stays until a version or a sample is newer.

    Belongs to the event loop.
    """

    def __init__(self, store: Store, settings: Settings, children: Children) -> None:
        self._store = store
        self._settings = settings
        self._children = children
        self._known: dict[int, Ranking] = {}
        self._one_at_a_time = asyncio.Lock()

    async def ranked(
        self, model: Model, *, limit: int, after: int
    ) -> tuple[list[RankedSample], int]:
        """Up to `limit` samples from place `after` on, and the place behind the last of them.

        Raises InvalidInput for a model without classes, ChildDied, NotFound.
        """
        if model.loss not in ("cross_entropy", "bce_with_logits"):
            problem = Problem("/query/order", "uncertainty needs a model that classifies")
            raise InvalidInput("the order is wrong", problems=[problem])
        async with self._one_at_a_time:
            ranking = await self._current(model)
        return await asyncio.to_thread(self._page, model, ranking, limit, after)

    async def _current(self, model: Model) -> Ranking:
        version = await asyncio.to_thread(self._store.integrity.latest, model.id)
        newest = await asyncio.to_thread(self._newest, model)
        known = self._known.get(model.id)
        if known is not None and (known.version, known.newest) == (version.version, newest):
            return known
        work_dir = Path(tempfile.mkdtemp(prefix="rank-", dir=self._store.tmp_dir))
        try:
            task = tasks.rank_task(model, version, self._store, self._settings, newest=NEWEST)
            ranked = await self._ask(task)
        finally:
            await asyncio.to_thread(shutil.rmtree, work_dir)
        entropies = np.array(ranked.entropies)
        best = np.argsort(-entropies, kind="stable")
        ranking = Ranking(
            version.version, np.array(ranked.ids, np.int64)[best], entropies[best], newest
        )
        self._known.pop(model.id, None)
        self._known[model.id] = ranking
        while len(self._known) > MODELS_KEPT:
            self._known.pop(next(iter(self._known)))
        return ranking

    async def _ask(self, task: Rank) -> Ranked:
        child = await Child.spawn(self._children, task)
        try:
            timeout_s = self._settings.prepare_timeout_s
            async for message in child.messages(silence_timeout_s=timeout_s):
                if isinstance(message, Ranked):
                    return message
                if isinstance(message, Failed):
                    raise ChildDied(f"the samples cannot be ranked: {message.detail}")
        finally:
            await child.close()
        raise ChildDied("the samples cannot be ranked: the child stopped without an answer")

    def _newest(self, model: Model) -> int:
        rows = self._store.samples.list(
            model.id, SampleFilter(unlabelled=True), limit=1, newest_first=True
        )
        return rows[0].id if rows else 0

    def _page(
        self, model: Model, ranking: Ranking, limit: int, after: int
    ) -> tuple[list[RankedSample], int]:
        """Samples that were labelled or deleted since are passed over."""
        page: list[RankedSample] = []
        place = after
        while place < len(ranking.ids) and len(page) < limit:
            some = ranking.ids[place : place + limit].tolist()
            found = self._store.samples.by_ids(model.id, some)
            for id in some:  # noqa: A001
                sample = found.get(id)
                if len(page) == limit:
                    break
                if sample is not None and sample.label is None and sample.quarantine is None:
                    page.append(RankedSample(sample, float(ranking.entropies[place])))
                place += 1
        return page, place
