"""Operators that have a gradient, but a slow one, are written anew, with the same gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from service.training.messages import Prepared

node = helper.make_node
ROWS = 4


def normal(*shape: int, seed: int = 5) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal(shape) * 0.5).astype(np.float32)


def index(value: int) -> np.ndarray:
    return np.array(value, np.int64)


SPATIAL = {"to_spatial": np.array([-1, 4, 2, 2], np.int64)}
SHAPED = node("Reshape", ["h", "to_spatial"], ["s"], name="to")
FLAT = node("Flatten", ["t"], ["g"], name="flat")
LAST = node("Gather", ["s", "last"], ["t"], name="last_row", axis=2)
POOLED = [
    SHAPED,
    node("Conv", ["s", "k"], ["c"], name="conv", pads=[1, 1, 1, 1]),
    node("Relu", ["c"], ["r"], name="relu"),
    node("MaxPool", ["r"], ["t"], name="pool", kernel_shape=[2, 2]),
    FLAT,
]
PARTS = [
    SHAPED,
    *(
        node("Gather", ["s", f"i{at}"], [f"p{at}"], name=f"part{at}", axis=-3)
        for at in (2, 0, 3, 1)
    ),
    node("Mul", ["p0", "p1"], ["a"], name="a"),
    node("Mul", ["p2", "p3"], ["d"], name="d"),
    node("Sub", ["a", "d"], ["t"], name="sub"),
    FLAT,
]
POSITIONS = {f"i{at}": index(at if at else -4) for at in range(4)}

CASES: dict[str, tuple[list[onnx.NodeProto], dict[str, Any], str, str]] = {
    "Relu": ([node("Relu", ["h"], ["g"], name="relu")], {}, "ReluGrad", "Greater"),
    "ReluOfConvUnderMaxPool": (
        POOLED,
        {**SPATIAL, "k": normal(3, 4, 3, 3), "out": 3, "size": 16},
        "ReluGrad",
        "Greater",
    ),
    "GatherOfOne": (
        [SHAPED, LAST, FLAT],
        {**SPATIAL, "last": index(-1), "out": 8, "size": 16},
        "GatherGrad",
        "Slice",
    ),
    "GatherOfEach": (
        PARTS,
        {**SPATIAL, **POSITIONS, "out": 4, "size": 16},
        "GatherGrad",
        "Split",
    ),
    "GatherOfOneTwice": (
        [
            SHAPED,
            LAST,
            node("Gather", ["s", "last"], ["u"], name="again", axis=2),
            node("Mul", ["t", "u"], ["v2"], name="square"),
            node("Flatten", ["v2"], ["g"], name="flat"),
        ],
        {**SPATIAL, "last": index(1), "out": 8, "size": 16},
        "",
        "Slice",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_was_written_anew_has_the_gradient_of_finite_differences(
    name: str,
    graphs: Any,
    accept: Callable[..., Prepared],
    trainer: type,
    differences: Callable[..., np.ndarray],
) -> None:
    nodes, extra, gone, stead = CASES[name]
    model = graphs.around(*nodes, **extra)
    prepared = accept(model, optimizer="sgd")
    x, target = normal(ROWS, 6, seed=11) * 2, normal(ROWS, 3, seed=12)

    found = trainer(prepared.artifacts).gradients(prepared.trainable, x, target)

    operators = {n.op_type for n in onnx.load(prepared.artifacts.training_model).graph.node}
    assert gone not in operators
    assert stead in operators
    for parameter in {"b", *prepared.trainable} - {"w", "v"}:
        expected = differences(model, parameter, x, target, 1e-3)
        scale = max(float(np.abs(expected).max()), 1e-3)
        np.testing.assert_allclose(found[parameter], expected, rtol=0, atol=0.03 * scale)


def test_a_gather_of_one_position_is_told(graphs: Any, accept: Callable[..., Prepared]) -> None:
    nodes, extra, _, _ = CASES["GatherOfEach"]

    prepared = accept(graphs.around(*nodes, **extra))

    (note,) = [note for note in prepared.notes if "Gather" in note]
    assert all(f"part{at}" in note for at in range(4))


def test_embeddings_and_old_opsets_keep_their_gather(
    graphs: Any, accept: Callable[..., Prepared]
) -> None:
    several = node("Gather", ["h", "index"], ["g"], name="several", axis=1)
    positions = np.array([0, 3], np.int64)
    kept = accept(graphs.around(several, index=positions, out=2))
    nodes, extra, _, _ = CASES["GatherOfOne"]
    old = accept(graphs.around(*nodes, **extra, opset=12))

    for prepared in (kept, old):
        operators = {n.op_type for n in onnx.load(prepared.artifacts.eval_model).graph.node}
        assert "Gather" in operators
