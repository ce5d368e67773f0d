"""The same upload, registered again: whose artifacts it gets, and when a child must make others."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from stored import name_classes
from support import mlp

from service.jobs.short_tasks import ShortTasks
from service.models.prepared import MADE_OF, describe, prepare_again
from service.models.registry import Registry
from service.models.specification import ModelSpec
from service.processes.children import Children
from service.settings import load_settings
from service.training.engines.packages import RUNTIMES
from service.training.protocol.messages.preparation import Prepare
from storage.errors import Damaged
from storage.records.models import Model
from storage.store import Store

Register = Callable[..., Model]


class CountedChildren(Children):
    """Real children, and how many have been started."""

    def __init__(self) -> None:
        super().__init__(memory_cap_bytes=None)
        self.started = 0

    async def spawn(self, *arguments: Any, **options: Any) -> asyncio.subprocess.Process:
        self.started += 1
        return await super().spawn(*arguments, **options)


@pytest.fixture
def children() -> CountedChildren:
    return CountedChildren()


@pytest.fixture
def register(store: Store, children: CountedChildren, tmp_path: Path) -> Register:
    """Register the same perceptron of two classes under a name."""

    def register(name: str, *, model: bytes = mlp(3, 4, 2), **choices: Any) -> Model:
        source = tmp_path / f"{name}.onnx"
        source.write_bytes(model)
        spec = ModelSpec(**{"name": name, "loss": "cross_entropy", **choices})

        async def run() -> Model:
            registry = Registry(
                store, ShortTasks(store, load_settings(data_dir=tmp_path / "data"), children)
            )
            return await registry.register(spec, source, form="forward")

        return asyncio.run(run())

    return register


def described(model: Model) -> Model:
    """All of it but what names it."""
    return replace(model, id=0, name="", created_at=model.created_at.min)


def test_what_prepares_a_model_is_named_by_the_package_that_is_installed(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").touch()
    order = Prepare(str(tmp_path / "model.onnx"), "forward", str(tmp_path), loss="mse")
    made_by = json.loads(describe(order))["made_by"]
    assert {"honed", "onnx"} < set(made_by)
    (runtime,) = set(made_by) & set(RUNTIMES)
    assert made_by[runtime] == version(runtime)


def test_the_same_upload_is_prepared_once(
    store: Store, register: Register, children: CountedChildren
) -> None:
    first = register("first")
    second = register("second")

    assert children.started == 1
    assert described(second) == described(first)
    versions = [store.versions.get(model.id, 1) for model in (first, second)]
    assert versions[0].file == versions[1].file


def test_the_artifacts_outlive_the_model_that_had_them_first(
    store: Store, register: Register, children: CountedChildren
) -> None:
    register("first")
    second = register("second")
    store.models.delete("first")

    third = register("third")

    assert children.started == 1
    assert all(store.files.path(file.sha256).exists() for file in third.files.values())
    assert third.files == second.files


def test_a_bit_that_flips_in_what_artifacts_were_made_of_is_seen_when_it_is_read(
    store: Store, register: Register, tmp_path: Path
) -> None:
    model = register("first")
    path = store.files.path(model.files[MADE_OF].sha256)

    def again() -> Prepare | None:
        return prepare_again(model, store, work_dir=tmp_path)

    assert again() is not None
    before, content = path.stat(), bytearray(path.read_bytes())
    content[content.index(b"cross_entropy")] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # as on a failing medium

    with pytest.raises(Damaged):
        again()
    assert store.integrity.known().files == {path.name: ["first made_of"]}
    register("second")
    assert again() is not None
    assert not store.integrity.known()


def test_another_choice_or_upload_is_prepared_anew(
    register: Register, children: CountedChildren
) -> None:
    first = register("first")

    others = [
        register("loss", loss="bce_with_logits"),
        register("trainable", trainable=("layer1.*",)),
        register("classes", classes=("cat", "dog")),
        register("hyperparameter", hyperparameters={"feature_dtype": "float16"}),
        register("weights", model=mlp(3, 4, 2, seed=1)),
    ]

    assert children.started == 1 + len(others)
    for other in others:
        assert other.files[MADE_OF] != first.files[MADE_OF], other.name


def test_names_of_classes_that_were_changed_since_are_not_taken_over(
    store: Store, register: Register, children: CountedChildren
) -> None:
    register("first", classes=("cat", "dog"))
    name_classes(store, "first", ("hund", "katze"))

    second = register("second", classes=("cat", "dog"))

    assert children.started == 1
    assert second.signature.target.classes == ("cat", "dog")


@pytest.mark.parametrize("damage", ["gone", "flipped"])
def test_artifacts_that_are_damaged_are_made_anew(
    store: Store, register: Register, children: CountedChildren, damage: str
) -> None:
    first = register("first")
    path = store.files.path(first.files["training_model"].sha256)
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-1] + b"\x00\x01")

    register("second")

    assert children.started == 2
