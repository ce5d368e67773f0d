"""A real store with versions that no training made, and a predictor beside it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support import mlp

from service.events import Feed, Happening
from service.latest import LatestVersions
from service.prediction.predictor import Predictor
from service.settings import load_settings
from storage.records import (
    FileRecord,
    JobState,
    Model,
    NewJob,
    NewModel,
    Signature,
    TargetSpec,
    TensorSpec,
)
from storage.store import Store


@dataclass
class Shop:
    """Models and versions in a store, made by hand."""

    store: Store

    def adopt(self, content: bytes) -> FileRecord:
        path = self.store.tmp_dir / "adopted"
        path.write_bytes(content)
        return self.store.files.adopt(path)

    def add(self, name: str, base: bytes) -> Model:
        """A model of four features and three classes."""
        target = TargetSpec("labels", "int64", (), 3, None)
        new = NewModel(
            name=name,
            loss="cross_entropy",
            optimizer="adamw",
            output="logits",
            signature=Signature((TensorSpec("x", "float32", (4,)),), target),
            trainable=(),
            trainable_parameters=0,
            frozen_parameters=0,
            hyperparameters={},
            files={"training_model": self.adopt(b"artifact")},
        )
        return self.store.models.add(new, base_version=self.adopt(base))

    def publish(self, model: Model, content: bytes) -> int:
        """A promoted version with this content; its number."""
        job = self.store.jobs.enqueue(NewJob(model.id, "test", {}, "latest"))
        self.store.jobs.move(job.id, JobState.QUEUED, JobState.RUNNING)
        version = self.store.versions.publish(
            model_id=model.id,
            job_id=job.id,
            checkpoint_id=None,
            file=self.adopt(content),
            metrics={},
            baseline={},
            compared_with=None,
            promoted=True,
            reason="a test",
            verdict={},
            provenance={},
            job_metrics={},
        )
        assert version is not None
        return version.version


@dataclass
class Running:
    """A predictor in the test's event loop, and all that was told meanwhile."""

    predictor: Predictor
    latest: LatestVersions
    feed: Feed
    told: list[Happening]


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    store = Store.open(tmp_path / "data")
    yield Shop(store)
    store.close()


@pytest.fixture
def running(shop: Shop, tmp_path: Path) -> Callable[..., Any]:
    """Starts a predictor in the running event loop."""

    @asynccontextmanager
    async def start(**chosen: Any) -> AsyncIterator[Running]:
        settings = load_settings(data_dir=tmp_path / "data", **chosen)
        feed = Feed(shop.store)
        latest = LatestVersions(shop.store, feed)
        predictor = Predictor(shop.store, settings, latest=latest, feed=feed)
        told: list[Happening] = []
        feed.listen(told.append)
        try:
            yield Running(predictor, latest, feed, told)
        finally:
            await predictor.stop()

    return start


@pytest.fixture
def model_bytes() -> Callable[[int], bytes]:
    """Forward models of one shape that differ by a seed."""
    return lambda seed: mlp(4, 3, seed=seed)
