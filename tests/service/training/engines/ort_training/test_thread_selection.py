"""How many threads On-Device Training is given."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest
from msgspec.structs import replace

from service.training.protocol.messages.shared import MULTIPLICATIONS, Artifacts, ResourceLimits
from service.training.protocol.messages.training import Train
from service.training.thread_selection import select_threads

pytestmark = pytest.mark.usefixtures("_on_device_training")


@pytest.fixture
def task(make_artifacts: Callable[..., Artifacts], make_workshop: Any) -> Train:
    made: Train = make_workshop().task(make_artifacts())
    return replace(made, limits=ResourceLimits(threads=4))


def counted(task: Train, multiplications: int | None, folder: Path) -> Train:
    model = onnx.load(task.artifacts.eval_model)
    said = {} if multiplications is None else {MULTIPLICATIONS: str(multiplications)}
    onnx.helper.set_model_props(model, said)
    onnx.save(model, folder / "eval_model.onnx")
    named = replace(task.artifacts, eval_model=str(folder / "eval_model.onnx"))
    return replace(task, artifacts=named)


def test_more_threads_train_what_is_worth_them(task: Train, tmp_path: Path) -> None:
    assert select_threads(counted(task, 10_000, tmp_path)) == 1
    assert select_threads(counted(task, 1_500_000, tmp_path)) > 1
    assert select_threads(counted(task, 10**9, tmp_path)) == 4


def test_all_threads_train_what_nobody_counted(task: Train, tmp_path: Path) -> None:
    assert select_threads(counted(task, None, tmp_path)) == 4
