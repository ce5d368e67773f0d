"""Threads are chosen by how much work a step is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx.helper import make_node
from onnx.numpy_helper import from_array
from step_models import compiled, model_of, perceptron

from service.training.engines.compilation import SCAN_ROWS, workload
from service.training.engines.manifest import read_manifest
from service.training.graph.step import differentiate
from service.training.thread_selection import worthwhile_threads


def test_products_are_counted_for_one_sample() -> None:
    weights = {"c": (8, 3, 3, 3), "t": (8, 2, 2, 2), "g": (10, 288), "m": (10, 7)}
    nodes = [
        make_node("Conv", ["x", "c"], ["a"]),  # 8x6x6 of 3x3x3
        make_node("ConvTranspose", ["a", "t"], ["b"], strides=[2, 2]),  # 8x6x6 to 2x2x2 each
        make_node("Flatten", ["b"], ["f"]),
        make_node("Gemm", ["f", "g"], ["h"], transB=1),  # 10 of 288
        make_node("MatMul", ["h", "m"], ["y"]),  # 7 of 10
    ]
    tensors = [from_array(np.zeros(shape, np.float32), name) for name, shape in weights.items()]
    model = model_of(nodes, {"x": ["batch", 3, 8, 8]}, {"y": ["batch", 7]}, tensors)
    work = workload(model)
    assert work.multiplications == 8 * 36 * 27 + 8 * 36 * 8 + 10 * 288 + 7 * 10
    assert work.elements == 8 * 36 + 2 * 144 * 2 + 10 + 7


def test_what_is_done_once_for_a_batch_is_not_counted() -> None:
    nodes = [
        make_node("Mul", ["w", "w"], ["square"]),
        make_node("MatMul", ["x", "square"], ["y"]),
    ]
    weights = [from_array(np.zeros((50, 3), np.float32), "w")]
    work = workload(model_of(nodes, {"x": ["batch", 50]}, {"y": ["batch", 3]}, weights))
    assert (work.multiplications, work.elements) == (150, 3)


@pytest.mark.parametrize(("kind", "gates"), [("RNN", 1), ("GRU", 3), ("LSTM", 4)])
def test_a_recurrent_layer_multiplies_by_both_matrices_at_each_time(kind: str, gates: int) -> None:
    shapes = {"x": (7, "batch", 5), "w": (2, gates * 3, 5), "r": (2, gates * 3, 3)}
    node = make_node(kind, [*shapes], ["y"], hidden_size=3, direction="bidirectional")
    weights = [from_array(np.zeros(shapes[name], np.float32), name) for name in ("w", "r")]
    model = model_of([node], {"x": [*shapes["x"]]}, {"y": [7, 2, "batch", 3]}, weights)
    assert workload(model).multiplications == 7 * 2 * gates * 3 * (5 + 3)


@pytest.mark.parametrize(("steps", "rows"), [(10, SCAN_ROWS), (1 << 18, 2), (1 << 21, 0)])
def test_a_recurrent_step_needs_many_rows_unless_sequences_are_long(steps: int, rows: int) -> None:
    shapes = {"x": (steps, "batch", 2), "w": (1, 8, 2), "r": (1, 8, 2)}
    node = make_node("LSTM", [*shapes], ["y"], hidden_size=2)
    weights = [from_array(np.zeros(shapes[name], np.float32), name) for name in ("w", "r")]
    model = model_of([node], {"x": shapes["x"]}, {"y": [steps, 1, "batch", 2]}, weights)
    step = differentiate(model, loss="y", parameters=["w", "r"])
    assert workload(step).least_rows == rows


def test_a_small_step_stays_on_one_thread_and_a_large_one_takes_all(tmp_path: Path) -> None:
    small = read_manifest(compiled(perceptron(), tmp_path / "small").manifest)
    large = read_manifest(compiled(perceptron(hidden=2000), tmp_path / "large").manifest)
    assert worthwhile_threads(small, rows=32, most=8) == 1
    assert worthwhile_threads(large, rows=512, most=8) == 8
    assert worthwhile_threads(large, rows=512, most=1) == 1
    assert 1 < worthwhile_threads(large, rows=64, most=64) < 64
