"""Reading few samples of a model takes as much work however many others it has."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from storage.readonly.sample_index import read_ids, read_newest, read_sample_index
from storage.records.models import Model
from storage.records.samples import Split
from storage.records.signatures import TargetSpec
from storage.samples.filter import SampleFilter
from storage.store import Store

CLASS = TargetSpec("labels", "int64", (), 10)
FEW, MANY = 40, 4000
STEPS = 20
"""SQLite's instructions between two counts."""


class Counting(sqlite3.Connection):
    """Counts the instructions that SQLite carries out."""

    counted = 0

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.set_progress_handler(self._count, STEPS)

    def _count(self) -> None:
        Counting.counted += STEPS


@pytest.fixture(autouse=True)
def counting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Counting))


def index_of(store: Store, model: Model, *, base: bool = False) -> None:
    for split in (Split.TRAIN, Split.VALIDATION):
        index = read_sample_index(
            *(store.database, store.packs_dir),
            model_id=model.id,
            split=split,
            watermark=10**9,
            target=CLASS,
            base=base,
        )
        assert len(index.ids) == (FEW if split is Split.TRAIN else 0)


def newest_of(store: Store, model: Model, *, labelled: bool) -> None:
    index = read_newest(
        *(store.database, store.packs_dir),
        model_id=model.id,
        newest=10,
        target=CLASS,
        labelled=labelled,
    )
    assert len(index.ids) == 10


READS: dict[str, Callable[[Store, Model], object]] = {
    "a job's samples": index_of,
    "a job's samples with the base set's": partial(index_of, base=True),
    "the base set": lambda store, model: read_ids(store.database, "base", model_id=model.id),
    "the newest labelled": partial(newest_of, labelled=True),
    "the newest unlabelled": partial(newest_of, labelled=False),
    "by key": lambda store, model: store.samples.list(
        model.id, SampleFilter(key="k7"), limit=10, after=1
    ),
    "by key, of a split": lambda store, model: store.samples.newest_id(
        model.id, SampleFilter(key="k7", split=Split.TRAIN)
    ),
    "ids by key": lambda store, model: store.samples.ids(model.id, SampleFilter(key="k7")),
}


@pytest.mark.parametrize("what", READS)
def test_the_work_does_not_grow_with_the_other_samples(
    store: Store, add_model: Callable[..., Model], what: str
) -> None:
    model = add_model(store)
    add(store, model, FEW, label=1)
    add(store, model, FEW, label=None)
    alone = steps(READS[what], store, model)
    add(store, model, MANY, label=None)
    assert steps(READS[what], store, model) <= alone + MANY // 10


def add(store: Store, model: Model, count: int, *, label: int | None) -> None:
    with store.samples.stage(model.id, 16) as staging:
        rows = np.random.default_rng(count).integers(0, 255, (count, 16), np.uint8)
        rows[:, 0] = label is None
        keys = None if label is None else [f"k{number}" for number in range(count)]
        staging.add(rows, [label] * count, key=keys, split=Split.TRAIN)
        staging.commit()


def steps(read: Callable[[Store, Model], object], store: Store, model: Model) -> int:
    """The instructions of one reading."""
    before = Counting.counted
    read(store, model)
    return Counting.counted - before
