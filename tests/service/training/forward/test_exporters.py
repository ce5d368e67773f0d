"""What exporters write around a model: chains of constants, missing biases, old stamps, noise."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from service.training.protocol.messages.preparation import Prepared

node = helper.make_node
GRAPHS = Path(__file__).parents[1] / "graphs"


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def constant(name: str, value: np.ndarray) -> onnx.NodeProto:
    return node(
        "Constant", [], [name], name=f"the_{name}", value=numpy_helper.from_array(value, name)
    )


REFLECTION = [
    constant("here", ints(1, 0)),
    constant("zeros_shape", ints(2)),
    node(
        "ConstantOfShape",
        ["zeros_shape"],
        ["zeros"],
        name="zeros",
        value=numpy_helper.from_array(ints(0)),
    ),
    node("Concat", ["here", "zeros"], ["list"], name="list", axis=0),
    node("Reshape", ["list", "pairs"], ["table"], name="table"),
    node("Transpose", ["table"], ["sides"], name="sides", perm=[1, 0]),
    node("Reshape", ["sides", "flat"], ["mixed"], name="mixed"),
    node("Gather", ["mixed", "order"], ["pads"], name="pads", axis=0),
    node("Pad", ["h", "pads"], ["g"], name="pad", mode="reflect"),
]


def test_pads_that_nodes_compute_are_read_as_numbers(
    graphs: Any, accept: Callable[..., Prepared], trainer: type, differences: Callable[..., Any]
) -> None:
    """The pads are (0, 1, 0, 0): one column before the first."""
    nodes = [copy_of(each) for each in REFLECTION]
    model = graphs.around(*nodes, out=6, pairs=ints(2, 2), flat=ints(-1), order=ints(1, 0, 3, 2))
    prepared = accept(model, optimizer="sgd")

    operators = {node.op_type for node in onnx.load(prepared.artifacts.eval_model).graph.node}
    assert "ConstantOfShape" not in operators
    x = np.random.default_rng(1).standard_normal((4, 6)).astype(np.float32)
    target = np.random.default_rng(2).standard_normal((4, 3)).astype(np.float32)
    found = trainer(prepared.artifacts).gradients(["b"], x, target)["b"]
    np.testing.assert_allclose(found, differences(model, "b", x, target), rtol=0.03, atol=1e-3)


def copy_of(each: onnx.NodeProto) -> onnx.NodeProto:
    return onnx.NodeProto.FromString(each.SerializeToString())


def test_a_layer_norm_without_a_bias_trains_its_scale(
    graphs: Any,
    accept: Callable[..., Prepared],
    trainer: type,
    differences: Callable[..., Any],
) -> None:
    scale = np.random.default_rng(7).random(5).astype(np.float32) + 0.5
    model = graphs.around(node("LayerNormalization", ["h", "s"], ["g"], name="norm"), s=scale)
    prepared = accept(model, optimizer="sgd")

    assert set(prepared.trainable) == {"w", "b", "v", "s"}
    x = np.random.default_rng(1).standard_normal((4, 6)).astype(np.float32)
    target = np.random.default_rng(2).standard_normal((4, 3)).astype(np.float32)
    found = trainer(prepared.artifacts).gradients(["s"], x, target)["s"]
    np.testing.assert_allclose(found, differences(model, "s", x, target), rtol=0.05, atol=1e-3)


def test_an_old_stamp_does_not_hide_the_initializers_from_the_converter(
    graphs: Any, accept: Callable[..., Prepared]
) -> None:
    relu = node("Relu", ["h"], ["g"], name="relu")
    model = graphs.around(relu, opset=7, z=np.ones(3, np.float32))
    model.graph.node[-1].input.append("z")
    model.ir_version = 3
    model.graph.input.extend(
        helper.make_tensor_value_info(t.name, t.data_type, t.dims) for t in model.graph.initializer
    )

    assert any("opset 7 was converted" in note for note in accept(model).notes)


def test_an_opset_that_cannot_be_converted_is_refused_with_the_way_out(
    graphs: Any, refuse: Callable[..., dict[str, str]]
) -> None:
    model = graphs.around(node("Relu", ["h"], ["g"], name="relu"), opset=7)
    model.graph.node[0].input[1] = "nowhere"

    details = " ".join(refuse(model).values())

    assert "nowhere" in details
    assert "Traceback" not in details


@pytest.mark.parametrize("op_type", ["RandomNormalLike", "RandomUniformLike", "Bernoulli"])
def test_noise_of_the_graphs_own_is_refused(
    op_type: str, graphs: Any, refuse: Callable[..., dict[str, str]]
) -> None:
    nodes = [
        node("Sigmoid", ["x"], ["chance"], name="chance"),
        node(op_type, ["chance"], ["noise"], name="noise"),
        node("MatMul", ["noise", "m"], ["n"], name="mix"),
        node("Add", ["h", "n"], ["g"], name="add"),
    ]
    model = graphs.around(*nodes, m=np.ones((6, 5), np.float32))

    assert "make the noise an input" in refuse(model)["/model/graph/node/noise"]


@pytest.mark.parametrize("name", ["copies_dy18", "group_norm_dy18", "mlp_dy18_fixed"])
def test_an_exported_version_trains_what_its_upload_did(
    name: str, accept: Callable[..., Prepared], trainer: type, tmp_path: Path
) -> None:
    upload, version = GRAPHS / f"{name}.onnx", tmp_path / "version.onnx"
    first = accept(upload)
    trainer(first.artifacts).engine.export(version)
    assert set(accept(version).trainable) == set(first.trainable)


def test_a_record_of_parameters_that_cannot_be_read_is_refused(
    graphs: Any, refuse: Callable[..., dict[str, str]]
) -> None:
    model = graphs.around(node("Relu", ["h"], ["g"], name="relu"))
    helper.set_model_props(model, {"pytorch.parameters": '{"w": 1}'})
    (told,) = refuse(model).items()
    assert told[0] == "/model/metadata_props/pytorch.parameters"
