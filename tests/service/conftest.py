"""A store of its own, a clock that the test turns, and a laptop whose plug the test holds."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from service.device import Moment
from storage.records import Model, NewModel, Signature, Split, TargetSpec, TensorSpec
from storage.store import Store

RECORD_BYTES = 16


class Clock:
    """Two clocks that the test moves."""

    def __init__(self) -> None:
        self.wall = datetime(2026, 3, 2, 12, 0, tzinfo=timezone.utc)
        self.monotonic_s = 1000.0

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
def store(tmp_path: Path, clock: Clock) -> Iterator[Store]:
    """Its rows are dated by the test's clock."""
    store = Store.open(tmp_path / "data", now=lambda: clock.wall)
    yield store
    store.close()


class Shop:
    """Models and samples, as small as they can be."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._count = 0

    def add_model(self, name: str = "m") -> Model:
        base = self._store.tmp_dir / "base.onnx"
        base.write_bytes(name.encode())
        new = NewModel(
            name=name,
            loss="cross_entropy",
            optimizer="adamw",
            output="logits",
            signature=Signature(
                inputs=(TensorSpec("x", "float32", (4,)),),
                target=TargetSpec("labels", "int64", (), 10, None),
            ),
            trainable=("w",),
            trainable_parameters=40,
            frozen_parameters=0,
            hyperparameters={},
            files={},
        )
        return self._store.models.add(new, self._store.files.adopt(base))

    def add_samples(self, model: Model, count: int, *, labelled: bool = True) -> None:
        first, self._count = self._count, self._count + count
        data = b"".join(
            number.to_bytes(RECORD_BYTES, "little")
            for number in range(first + 1, first + count + 1)
        )
        with self._store.samples.stage(model.id, RECORD_BYTES) as staging:
            staging.add(data, [1 if labelled else None] * count, splits=[Split.TRAIN] * count)
            staging.commit()


@pytest.fixture
def shop(store: Store) -> Shop:
    return Shop(store)
