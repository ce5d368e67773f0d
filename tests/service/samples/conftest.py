from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from stored import adopt, begin, new_model

from storage.records.models import Model
from storage.store import Store


@pytest.fixture
def store(tmp_path: Path, database: Path) -> Iterator[Store]:
    opened = Store.open(begin(tmp_path / "data", database))
    yield opened
    opened.close()


@pytest.fixture
def model(store: Store) -> Model:
    """It takes four float32, and has ten classes."""
    return store.models.add(new_model(), adopt(store, b"base"))
