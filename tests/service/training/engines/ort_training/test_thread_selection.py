"""How many threads On-Device Training is given."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest
from msgspec.structs import replace
from onnx.helper import make_node
from step_models import model_of

from service.training.protocol.messages.shared import Artifacts, ResourceLimits
from service.training.protocol.messages.training import Train
from service.training.thread_selection import select_threads

pytestmark = pytest.mark.usefixtures("_on_device_training")


@pytest.fixture
def task(make_artifacts: Callable[..., Artifacts], make_workshop: Any) -> Train:
    made: Train = make_workshop().task(make_artifacts())
    return replace(made, limits=ResourceLimits(threads=4))


def multiplying(task: Train, size: int, folder: Path) -> Train:
    """The task, of a model whose rows are multiplied by a square matrix, which is trained."""
    shapes = {"x": ["batch", size], "w": [size, size]}
    model = model_of([make_node("MatMul", [*shapes], ["y"])], shapes, {"y": ["batch", size]}, [])
    onnx.save(model, folder / "eval_model.onnx")
    named = replace(task.artifacts, eval_model=str(folder / "eval_model.onnx"))
    return replace(task, artifacts=named)


def test_more_threads_train_what_is_worth_them(task: Train, tmp_path: Path) -> None:
    assert select_threads(multiplying(task, 100, tmp_path)) == 1
    assert 1 < select_threads(multiplying(task, 1200, tmp_path)) < 4
    assert select_threads(multiplying(task, 30_000, tmp_path)) == 4
