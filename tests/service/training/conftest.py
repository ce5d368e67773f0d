"""What the tests of the training child share: small artifacts, a data folder, a real child."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from child_forks import programs_started
from loop_bench import Bench, MakeBench
from msgspec.structs import replace
from perceptrons import perceptron
from stored import begin
from training_child import Child, limit_memory
from workshop import (
    CLASSES,
    CLASSIFICATION,
    FEATURES,
    HIDDEN,
    REGRESSION,
    Workshop,
    add_model,
    add_samples,
    make_samples,
)

from service.training.data.batches import Dataset
from service.training.preparation.prepare import prepare
from service.training.protocol.messages.preparation import Prepare, Prepared
from service.training.protocol.messages.shared import Artifacts
from service.training.protocol.messages.training import Done, Saved, Start, Train
from service.training.protocol.messages.unions import Line
from storage.readonly.sample_index import SampleIndex
from storage.records.signatures import Signature
from storage.store import Store


@pytest.fixture(scope="session")
def make_artifacts(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Artifacts]:
    """A perceptron made ready to train: x (batch, features) → logits (batch, classes)."""

    @cache
    def make(
        *,
        loss: str = "cross_entropy",
        dropout: bool = False,
        seed: int = 0,
        sizes: tuple[int, ...] = (FEATURES, HIDDEN, CLASSES),
    ) -> Artifacts:
        folder = tmp_path_factory.mktemp("artifacts")
        source = folder / "forward.onnx"
        onnx.save(perceptron(sizes, dropout=dropout, seed=seed), source)
        prepared = prepare(Prepare(str(source), "forward", str(folder / "made"), loss))
        assert isinstance(prepared, Prepared), prepared
        return prepared.artifacts

    return make


@pytest.fixture
def forward_model(tmp_path: Path) -> Path:
    """A perceptron as an app would upload it."""
    path = tmp_path / "forward.onnx"
    onnx.save(perceptron((FEATURES, HIDDEN, CLASSES), dropout=False, seed=0), path)
    return path


@pytest.fixture(scope="session")
def classification() -> Signature:
    return CLASSIFICATION


@pytest.fixture(scope="session")
def regression() -> Signature:
    return REGRESSION


@pytest.fixture(scope="session")
def samples() -> Callable[..., tuple[Any, Any]]:
    return make_samples


@pytest.fixture
def make_dataset(tmp_path: Path) -> Callable[..., Dataset]:
    """A dataset over packs written by hand; `packs`: how many the samples are spread over."""
    numbers = count()

    def make(
        inputs: tuple[Any, ...], labels: Any, signature: Signature, *, packs: int = 1
    ) -> Dataset:
        size = len(labels)
        records = np.concatenate(
            [
                np.frombuffer(each.tobytes(), np.uint8).reshape(size, each[0:1].strides[0])
                for each in map(np.ascontiguousarray, inputs)
            ],
            axis=1,
        )
        pack_of = (np.arange(size) * 7919) % packs
        offsets = np.zeros(size, np.int64)
        paths = []
        for pack in range(packs):
            mine = np.flatnonzero(pack_of == pack)
            offsets[mine] = np.arange(len(mine)) * records.shape[1]
            paths.append(tmp_path / f"{next(numbers)}.pack")
            paths[-1].write_bytes(records[mine].tobytes())
        index = SampleIndex(
            ids=np.arange(1, size + 1),
            packs=pack_of.astype(np.int32),
            offsets=offsets,
            lengths=np.full(size, records.shape[1]),
            labels=labels,
            pack_paths=tuple(paths),
        )
        return Dataset(index, signature)

    return make


@pytest.fixture
def make_workshop(tmp_path: Path, database: Path) -> Iterator[Callable[..., Workshop]]:
    """A real store with `train` and `validation` samples."""
    stores: list[Store] = []

    def make(
        *,
        signature: Signature = CLASSIFICATION,
        train: int = 200,
        validation: int = 60,
    ) -> Workshop:
        store = Store.open(begin(tmp_path / "data", database))
        stores.append(store)
        model = add_model(store, signature)
        watermark = add_samples(store, model, train=train, validation=validation)
        return Workshop(store, model.id, signature, watermark, tmp_path)

    yield make
    for store in stores:
        store.close()


@pytest.fixture
def spawn() -> Iterator[Callable[..., Child]]:
    """Start a child, with a task, or with nothing sent yet. memory_bytes: its limit."""
    children: list[Child] = []

    def start(task: Line | None = None, *, memory_bytes: int | None = None) -> Child:
        command = [sys.executable, "-W", "error", "-m", "service.training"]
        pipe = subprocess.PIPE
        # A limit of memory is for a program that shares none with the tests.
        with programs_started() if memory_bytes is not None else nullcontext():
            process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe)
        if memory_bytes is not None:
            limit_memory(process.pid, memory_bytes)
        child = Child(process)
        children.append(child)
        if task is not None:
            child.send(task)
        return child

    yield start
    for child in children:
        child.close()


@pytest.fixture
def train(spawn: Callable[..., Child]) -> Callable[[Train], tuple[Done, Child]]:
    """Train to the end in a child."""

    def run(task: Train, *, memory_bytes: int | None = None) -> tuple[Done, Child]:
        child = spawn(task, memory_bytes=memory_bytes)
        last = child.last()
        assert isinstance(last, Done), (last, child.errors())
        assert child.end() == 0
        return last, child

    return run


@pytest.fixture
def resumed() -> Callable[[Train, Saved], Train]:
    """The task that goes on from a checkpoint."""

    def make(task: Train, saved: Saved, best: Saved | None = None) -> Train:
        return replace(
            task,
            start=Start(
                how="resume",
                checkpoint=saved.path,
                state=saved.state,
                best_checkpoint=best.path if best else None,
            ),
        )

    return make


@pytest.fixture
def make_bench(
    make_artifacts: Callable[..., Artifacts],
    make_dataset: Callable[..., Dataset],
    classification: Signature,
    samples: Callable[..., tuple[Any, Any]],
    tmp_path: Path,
) -> MakeBench:
    """A job of 100 samples to train on, set up as `job.run` does."""
    x, labels = samples(140, target=classification.target)

    def make(
        *,
        artifacts: Artifacts | None = None,
        dropout: bool = False,
        validation: int = 40,
        **wanted: Any,
    ) -> Bench:
        last = 100 + validation
        sets = tuple(
            make_dataset((x[part],), labels[part], classification)
            for part in (slice(0, 100), slice(100, last))
        )
        made = artifacts or make_artifacts(dropout=dropout)
        return Bench(made, classification, sets, tmp_path, **wanted)  # type: ignore[arg-type]

    return make
