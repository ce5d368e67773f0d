from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import stored

from storage.records.models import FileRecord, Model
from storage.records.samples import StageResult
from storage.store import Store

RECORD_BYTES = 16
Adopt = Callable[[Store, bytes], FileRecord]
AddModel = Callable[..., Model]
Upload = Callable[..., StageResult]


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def store(data_dir: Path, database: Path) -> Iterator[Store]:
    store = Store.open(stored.begin(data_dir, database))
    yield store
    store.close()


@pytest.fixture
def adopt() -> Adopt:
    """Store bytes as a file."""

    return stored.adopt


@pytest.fixture
def add_model(adopt: Adopt) -> AddModel:
    """Register a model of one input, four float32, and ten classes."""

    def add_model(store: Store, name: str = "digits") -> Model:
        new = stored.new_model(
            name,
            trainable=("w",),
            trainable_parameters=40,
            frozen_parameters=2,
            hyperparameters={"batch_size": 8},
            files={"training_model": adopt(store, b"training of " + name.encode())},
            notes=("a note",),
        )
        return store.models.add(new, adopt(store, b"base of " + name.encode()))

    return add_model


@pytest.fixture
def upload() -> Upload:
    """Store samples whose bytes tell their number, from `first` on."""

    def upload(
        store: Store, model: Model, labels: list, *, first: int = 0, **columns
    ) -> StageResult:
        data = b"".join(record(first + i) for i in range(len(labels)))
        with store.samples.stage(model.id, RECORD_BYTES) as staging:
            staging.add(data, labels, **columns)
            return staging.commit()

    return upload


def record(number: int) -> bytes:
    return (number + 1).to_bytes(RECORD_BYTES, "little")


@pytest.fixture
def record_of() -> Callable[[int], bytes]:
    return record


@pytest.fixture
def start_child() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Run Python source in another process; whatever is left of it ends with the test."""
    with ExitStack() as stack:

        def start(source: str, *arguments: str | Path) -> subprocess.Popen[str]:
            child = subprocess.Popen(
                [sys.executable, "-c", source, *map(str, arguments)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            stack.enter_context(child)
            stack.callback(child.kill)
            return child

        yield start
