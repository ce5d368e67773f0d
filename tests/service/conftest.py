"""A store of its own, a clock that the test turns, and a laptop whose plug the test holds."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from stored import adopt, begin, new_model

from service.device.reading import Moment
from storage.records.models import Model
from storage.records.samples import Split
from storage.store import Store

RECORD_BYTES = 16


class Clock:
    """Two clocks that the test moves."""

    def __init__(self) -> None:
        self.wall = datetime(2026, 3, 2, 12, 0, tzinfo=timezone.utc)
        self.monotonic_s = 100_000.0

    def now(self) -> Moment:
        return Moment(self.wall, self.monotonic_s)

    def advance(self, seconds: float) -> Moment:
        self.wall += timedelta(seconds=seconds)
        self.monotonic_s += seconds
        return self.now()

    def jump(self, seconds: float) -> Moment:
        """The wall clock alone: somebody sets it, or the device sleeps."""
        self.wall += timedelta(seconds=seconds)
        return self.now()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path, database: Path, clock: Clock) -> Iterator[Store]:
    """Its rows are dated by the test's clock."""
    store = Store.open(begin(tmp_path / "data", database), now=lambda: clock.wall)
    yield store
    store.close()


class Shop:
    """Models and samples, as small as they can be."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._count = 0

    def add_model(self, name: str = "m") -> Model:
        base = adopt(self._store, name.encode())
        return self._store.models.add(new_model(name, trainable=("w",)), base)

    def add_samples(self, model: Model, count: int, *, labelled: bool = True) -> None:
        first, self._count = self._count, self._count + count
        data = b"".join(
            number.to_bytes(RECORD_BYTES, "little")
            for number in range(first + 1, first + count + 1)
        )
        with self._store.samples.stage(model.id, RECORD_BYTES) as staging:
            staging.add(data, [1 if labelled else None] * count, split=[Split.TRAIN] * count)
            staging.commit()


@pytest.fixture
def shop(store: Store) -> Shop:
    return Shop(store)
