"""Registration on a real store, with a real child that checks the upload."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from support import mlp

from service.errors import InvalidInput
from service.jobs.short_tasks import ShortTasks
from service.models.registry import Registry
from service.models.specification import ModelSpec
from service.processes.children import Children
from service.settings import load_settings
from service.training.protocol.messages.preparation import Prepare
from storage.errors import AlreadyExists, StorageFull
from storage.store import Store

MOST_BYTES = 2**16
IMAGES = ({"input": "x", "kind": "image"},)


@pytest.fixture
def upload(tmp_path: Path) -> Path:
    path = tmp_path / "model.onnx"
    path.write_bytes(mlp(4, 4, 2))
    return path


class OfSmallFiles(Children):
    """Whose processes are refused to write more into one file, as by a disk that is full."""

    async def spawn(self, *arguments: Any, **options: Any) -> asyncio.subprocess.Process:
        import resource

        process = await super().spawn(*arguments, **options)
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (MOST_BYTES, MOST_BYTES))
        return process


def register(
    store: Store, *specs: ModelSpec, upload: Path, kind: type[Children] = Children
) -> list[Any]:
    """Register models at once; what each returns or raises."""

    async def run() -> list[Any]:
        settings = load_settings(data_dir=store.data_dir)
        made = Registry(store, ShortTasks(store, settings, kind(memory_cap_bytes=None)))
        work = [made.register(spec, upload, form="forward") for spec in specs]
        return await asyncio.gather(*work, return_exceptions=True)

    return asyncio.run(run())


def kept(store: Store) -> list[Path]:
    files = [path for path in (store.data_dir / "files").rglob("*") if path.is_file()]
    return files + list(store.tmp_dir.iterdir())


@pytest.mark.parametrize(
    "wrong",
    [
        {"preprocess": IMAGES},
        {"features": ("only one",)},
        {"hyperparameters": {"class_weights": [1.0, 2.0, 3.0]}},
    ],
)
def test_a_model_that_is_refused_once_it_is_prepared_leaves_nothing(
    store: Store, upload: Path, wrong: dict[str, Any]
) -> None:
    spec = ModelSpec("m", "cross_entropy", **wrong)

    (refused,) = register(store, spec, upload=upload)

    assert isinstance(refused, InvalidInput)
    assert kept(store) == []


@pytest.mark.skipif(sys.platform != "linux", reason="limits a process that runs already")
def test_a_disk_without_room_for_the_check_is_no_fault_of_the_model(
    store: Store, upload: Path
) -> None:
    upload.write_bytes(mlp(64, 1024, 8))

    (refused,) = register(store, ModelSpec("m", "mse"), upload=upload, kind=OfSmallFiles)

    assert type(refused) is StorageFull
    assert "File too large; free some space" in refused.detail
    assert kept(store) == []


def test_a_model_is_ready_with_its_first_version(store: Store, upload: Path) -> None:
    (model,) = register(store, ModelSpec("m", "cross_entropy"), upload=upload)

    assert model.latest_version == 1
    assert store.files.path(store.versions.get(model.id, 1).file.sha256).exists()


def test_of_two_models_of_one_name_the_second_is_told_that_it_is_taken(
    store: Store, upload: Path
) -> None:
    spec = ModelSpec("m", "cross_entropy")
    others = replace(spec, output="logits", hyperparameters={"feature_dtype": "float16"})

    answers = register(store, spec, others, upload=upload)

    (refused,) = [answer for answer in answers if isinstance(answer, Exception)]
    assert isinstance(refused, AlreadyExists)
    (model,) = store.models.list(limit=9)
    named = {file.sha256 for file in model.files.values()}
    named.add(store.versions.get(model.id, 1).file.sha256)
    assert {path.name for path in kept(store)} == named
    assert refused.detail == "a model named 'm' exists; choose another name or delete it"


class Counted(ShortTasks):
    """Notes how many tasks are under way at once; no child starts."""

    running = most = 0

    async def ask(self, *_: Any, **__: Any) -> Any:
        self.running += 1
        self.most = max(self.most, self.running)
        await asyncio.sleep(0)
        self.running -= 1


@pytest.mark.parametrize(("free_bytes", "at_once"), [(2**20, 1), (2**40, 2)])
def test_a_second_check_needs_memory(store: Store, free_bytes: int, at_once: int) -> None:
    async def run() -> int:
        settings = load_settings(data_dir=store.data_dir)
        counted = Counted(store, settings, Children(memory_cap_bytes=free_bytes))
        registry = Registry(store, counted)
        task = Prepare(source="", form="forward", work_dir="", loss="mse")
        await asyncio.gather(*(registry.prepare(task) for _ in range(5)))
        return counted.most

    assert asyncio.run(run()) == at_once
