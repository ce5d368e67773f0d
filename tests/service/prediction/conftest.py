"""A real store with versions that no training made, and a predictor beside it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from stored import adopt, begin, new_model, publish, start_job
from support import mlp

from service.events import Feed
from service.models.latest import LatestVersions
from service.prediction.predictor import Predictor
from service.processes.children import Children
from service.settings import load_settings
from storage.database.transaction import Happening
from storage.records.models import Model
from storage.store import Store


@dataclass
class Shop:
    """Models and versions in a store, made by hand."""

    store: Store

    def add(self, name: str, base: bytes) -> Model:
        """A model of four features and three classes."""
        artifact = adopt(self.store, b"artifact")
        new = new_model(name, classes=3, files={"training_model": artifact})
        return self.store.models.add(new, base_version=adopt(self.store, base))

    def publish(self, model: Model, content: bytes) -> int:
        """A promoted version with this content; its number."""
        version = publish(self.store, start_job(self.store, model.id), content)
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
def shop(tmp_path: Path, database: Path) -> Iterator[Shop]:
    store = Store.open(begin(tmp_path / "data", database))
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
        predictor = Predictor(
            shop.store, settings, Children(memory_cap_bytes=None), latest=latest, feed=feed
        )
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
