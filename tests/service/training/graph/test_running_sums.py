"""A step that adds its gradients to what it is fed gives what it would give, plus that."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx.helper import make_graph, make_model, make_node, make_opsetid, make_tensor_value_info
from onnx.numpy_helper import from_array
from step_models import CLASSES, CROSS_ENTROPY, FLOAT

from service.training.engines.runtime import open_session
from service.training.graph.step import StepModel, build_step
from service.training.loss import LOSS_SCALE, SUM

WORDS, WIDTH, LENGTH = 5000, 6, 3
INT64 = onnx.TensorProto.INT64


def step(*nodes: onnx.NodeProto, **shapes: tuple[int, ...]) -> StepModel:
    """Of nodes from indices i and j and numbers x to logits, with weights of these shapes."""
    rng = np.random.default_rng(0)
    weights = [
        from_array(rng.standard_normal(shape).astype(np.float32), name)
        for name, shape in shapes.items()
    ]
    read = {name for node in nodes for name in node.input}
    inputs = [
        make_tensor_value_info(name, kind, ["batch", *shape])
        for name, kind, *shape in (("i", INT64), ("j", INT64), ("x", FLOAT, 2, LENGTH))
        if name in read
    ]
    logits = make_tensor_value_info("logits", FLOAT, ["batch", CLASSES])
    graph = make_graph(nodes, "model", inputs, [logits], weights)
    model = make_model(graph, opset_imports=[make_opsetid("", 17)], ir_version=8)
    return build_step(model, loss=CROSS_ENTROPY, parameters=tuple(shapes))


def convolution() -> StepModel:
    return step(
        make_node("Conv", ["x", "kernel"], ["c"], "c"),
        make_node("Flatten", ["c"], ["f"], "f"),
        make_node("Gemm", ["f", "head", "bias"], ["logits"], "head"),
        kernel=(4, 2, LENGTH),
        head=(4, CLASSES),
        bias=(CLASSES,),
    )


def tables() -> StepModel:
    """A table that is read twice, and another."""
    return step(
        make_node("Gather", ["words", "i"], ["a"], "a"),
        make_node("Gather", ["words", "j"], ["b"], "b"),
        make_node("Gather", ["users", "j"], ["c"], "c"),
        make_node("Flatten", ["x"], ["f"], "f"),
        make_node("Concat", ["a", "b", "c", "f"], ["all"], "all", axis=1),
        make_node("MatMul", ["all", "head"], ["logits"], "head"),
        words=(WORDS, WIDTH),
        users=(WORDS, 1),
        head=(2 * WIDTH + 1 + 2 * LENGTH, CLASSES),
    )


def tied() -> StepModel:
    """A table that is also a matrix."""
    return step(
        make_node("Gather", ["words", "i"], ["a"], "a"),
        make_node("Gather", ["words", "j"], ["b"], "b"),
        make_node("Mul", ["a", "b"], ["c"], "c"),
        make_node("Flatten", ["x"], ["f"], "f"),
        make_node("MatMul", ["f", "mix"], ["m"], "mix"),
        make_node("Add", ["c", "m"], ["d"], "d"),
        make_node("Gemm", ["d", "words"], ["logits"], "head", transB=1),
        words=(CLASSES, WIDTH),
        mix=(2 * LENGTH, WIDTH),
    )


@pytest.mark.parametrize("made", [convolution, tables, tied])
def test_gradients_are_added_to_what_is_fed(made: Any) -> None:
    plain = made()
    adding = plain.adding_up
    rng = np.random.default_rng(1)
    rows = 5
    feeds: dict[str, Any] = {LOSS_SCALE: np.ones((1,) * plain.scale_rank, np.float32) / rows}
    for value in plain.model.graph.input:
        sizes = [each.dim_value or rows for each in value.type.tensor_type.shape.dim]
        if value.type.tensor_type.elem_type == INT64:
            feeds[value.name] = rng.integers(0, CLASSES, sizes)
        elif value.name != LOSS_SCALE:
            feeds[value.name] = rng.standard_normal(sizes).astype(np.float32)
    session = open_session(adding.SerializeToString(), threads=1)
    sums = {
        value.name: rng.standard_normal(value.shape).astype(np.float32)
        for value in session.get_inputs()
        if value.name.startswith(SUM)
    }
    assert {name.removeprefix(SUM) for name in sums} == set(plain.gradients)
    names = [output.name for output in session.get_outputs()]
    found = dict(zip(names, session.run(None, {**feeds, **sums}), strict=True))
    expected = open_session(plain.model.SerializeToString(), threads=1).run(names, feeds)
    for name, values in zip(names, expected, strict=True):
        fed = sums[SUM + name].reshape(values.shape) if SUM + name in sums else 0
        np.testing.assert_allclose(
            found[name].reshape(values.shape), values + fed, rtol=1e-5, atol=1e-6
        )


def test_rows_of_a_table_are_added_in_one_place_without_zeros_of_its_size() -> None:
    nodes = tables().adding_up.graph.node
    for name in ("words", "users"):
        (reader,) = (node for node in nodes if f"{SUM}hone.gradient.{name}" in node.input)
        assert reader.op_type == "ScatterElements"
    assert sum(node.op_type == "ScatterElements" for node in nodes) == 2
