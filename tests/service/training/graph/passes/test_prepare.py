"""What is done to a graph before it is differentiated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from gradients import Array, reference, run
from onnx import TensorProto, helper, numpy_helper

from service.training.errors import GraphRefused
from service.training.graph.builder import Builder
from service.training.graph.passes.canonical import convert
from service.training.graph.passes.prepare import prepare

Node = onnx.NodeProto
node = helper.make_node


def model(
    nodes: Sequence[Node],
    initializers: dict[str, Any] | None = None,
    *,
    shape: Sequence[int | str] = ("batch", 4, 6),
    opset: int = 18,
    output: str = "y",
) -> onnx.ModelProto:
    """From x, float32."""
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(v), n) for n, v in (initializers or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def normal(*shape: int) -> Array:
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def operators(prepared: onnx.ModelProto) -> list[str]:
    return [n.op_type for n in prepared.graph.node]


def check_equal(original: onnx.ModelProto, prepared: onnx.ModelProto, *shape: int) -> None:
    feeds = {"x": normal(*shape)}
    expected = run(original, feeds)["y"]
    np.testing.assert_allclose(run(prepared, feeds)["y"], expected, rtol=1e-5, atol=1e-6)


def test_an_old_opset_is_raised() -> None:
    """The axes of ReduceMean became an input."""
    old = model([node("ReduceMean", ["x"], ["y"], axes=[1], keepdims=0)], opset=12)
    prepared = prepare(old)
    assert prepared.opset_import[0].version == 18
    check_equal(old, prepared, 2, 4, 6)


def test_an_old_opset_of_operators_that_stayed_as_they_were_is_restamped() -> None:
    """The converter would write the nodes anew, without their metadata; it takes 9 ms."""
    old = model([node("Relu", ["x"], ["a"]), node("Sin", ["a"], ["y"])], opset=17)
    old.graph.node[0].metadata_props.add(key="module", value="encoder.0")
    nodes = [node.SerializeToString() for node in old.graph.node]
    converted = convert(old, 18, 21)
    assert converted.opset_import[0].version == 18
    assert [node.SerializeToString() for node in converted.graph.node] == nodes


def test_an_old_opset_is_converted_if_an_operator_changed_in_a_branch() -> None:
    """The axes of ReduceMean became an input."""
    mean = node("ReduceMean", ["x"], ["then"], axes=[1], keepdims=0)
    total = node("ReduceSum", ["x", "axes"], ["else"], keepdims=0)
    branches = {
        f"{name}_branch": helper.make_graph(
            [each], name, [], [helper.make_tensor_value_info(name, TensorProto.FLOAT, None)]
        )
        for name, each in (("then", mean), ("else", total))
    }
    values = {"axes": np.array([1], np.int64), "decided": np.array(True)}
    old = model([node("If", ["decided"], ["y"], **branches)], values, opset=17)
    feeds = {"x": normal(2, 4, 6)}
    expected = run(old, feeds)["y"]
    converted = convert(old, 18, 21)
    assert converted.opset_import[0].version == 18
    np.testing.assert_array_equal(run(converted, feeds)["y"], expected)


def test_an_opset_that_cannot_be_raised_is_refused() -> None:
    old = model([node("Relu", ["x"], ["y"])])
    del old.opset_import[:]
    with pytest.raises(GraphRefused, match="imports no ONNX opset"):
        prepare(old)


def test_a_local_function_is_written_out() -> None:
    whole = model([node("Twice", ["x"], ["y"], domain="own")])
    body = [node("Add", ["a", "a"], ["b"])]
    imports = [helper.make_opsetid("", 18)]
    whole.functions.append(helper.make_function("own", "Twice", ["a"], ["b"], body, imports))
    whole.opset_import.append(helper.make_opsetid("own", 1))
    prepared = prepare(whole)
    assert operators(prepared) == ["Add"]
    assert [o.domain for o in prepared.opset_import] == [""]


def test_what_is_equal_is_computed_once_and_what_does_nothing_goes() -> None:
    nodes = [
        node("Relu", ["x"], ["a"]),
        node("Relu", ["x"], ["b"]),
        node("Identity", ["b"], ["c"]),
        node("Dropout", ["c"], ["d"]),
        node("Add", ["a", "d"], ["y"]),
        node("Exp", ["x"], ["unread"]),
    ]
    prepared = prepare(model(nodes))
    assert operators(prepared) == ["Relu", "Add"]
    assert list(prepared.graph.node[1].input) == ["a", "a"]


def pieces(*last: Node) -> list[Node]:
    """target = (batch, 4·6, -1), as TorchScript writes it."""
    return [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "zero"], ["n"], axis=0),
        node("Unsqueeze", ["n", "axis"], ["n1"]),
        node("Slice", ["s", "one", "three"], ["rest"]),
        node("Gather", ["rest", "zero"], ["four"], axis=0),
        node("Gather", ["rest", "first"], ["six"], axis=0),
        node("Mul", ["four", "six"], ["product"]),
        node("Unsqueeze", ["product", "axis"], ["p1"]),
        node("Concat", ["n1", "p1", "free"], ["target"], axis=0),
        *last,
    ]


NUMBERS = {
    "zero": np.array(0),
    "first": np.array(1),
    "axis": np.array([0]),
    "one": np.array([1]),
    "three": np.array([3]),
    "free": np.array([-1]),
}


def test_a_target_that_is_pieced_together_becomes_a_constant() -> None:
    original = model(pieces(node("Reshape", ["x", "target"], ["y"])), NUMBERS)
    prepared = prepare(original)
    assert operators(prepared) == ["Reshape"]
    assert Builder(prepared).tensor("y").shape == ("batch", 24, 1)
    check_equal(original, prepared, 3, 4, 6)


def test_a_branch_that_sizes_decide_is_put_in_place() -> None:
    branches = {}
    for name, op_type in (("then_branch", "Relu"), ("else_branch", "Exp")):
        value = helper.make_tensor_value_info(op_type, TensorProto.FLOAT, None)
        branches[name] = helper.make_graph([node(op_type, ["x"], [op_type])], name, [], [value])
    nodes = pieces(
        node("Equal", ["product", "twenty"], ["c"]), node("If", ["c"], ["y"], **branches)
    )
    original = model(nodes, {**NUMBERS, "twenty": np.array(20)})
    prepared = prepare(original)
    assert operators(prepared)[0] == "Exp"
    check_equal(original, prepared, 2, 4, 6)


def test_what_is_prepared_again_has_no_initializer_twice() -> None:
    original = model(pieces(node("Reshape", ["x", "target"], ["y"])), NUMBERS)
    names = [t.name for t in prepare(prepare(original)).graph.initializer]
    assert len(names) == len(set(names)) == 1


def test_small_tables_of_numbers_are_not_taken_for_shapes() -> None:
    """A slice along axis 1 of positions, which TorchScript computes."""
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "last"], ["n"], axis=0),
        node("Slice", ["positions", "zero", "n1", "one"], ["p"]),
        node("Cast", ["p"], ["f"], to=TensorProto.FLOAT),
        node("Add", ["x", "f"], ["y"]),
    ]
    nodes.insert(2, node("Unsqueeze", ["n", "zero"], ["n1"]))
    numbers = {"zero": np.array([0]), "one": np.array([1]), "last": np.array(2)}
    positions = np.arange(32).reshape(1, 32)
    original = model(nodes, {**numbers, "positions": positions})
    prepared = prepare(original)
    assert "Slice" not in operators(prepared)
    check_equal(original, prepared, 2, 4, 6)


def test_the_inner_tensor_that_is_asked_for_becomes_the_output() -> None:
    nodes = [node("Relu", ["x"], ["a"]), node("Exp", ["a"], ["y"])]
    prepared = prepare(model(nodes), "a")
    assert [v.name for v in prepared.graph.output] == ["a"]
    assert operators(prepared) == ["Relu"]
    x = normal(2, 4, 6)
    np.testing.assert_array_equal(reference(prepared).run(None, {"x": x})[0], np.maximum(x, 0))


def test_large_parameters_have_no_data_in_the_prepared_copy() -> None:
    """To copy them in each pass took most of the memory, and a third of the time."""
    nodes = [node("MatMul", ["x", "w"], ["h"]), node("Add", ["h", "frozen"], ["y"])]
    weights = {"w": np.ones((6, 512)), "frozen": np.ones((4, 512))}
    prepared = prepare(model(nodes, weights), parameters=["w"])
    found = {initializer.name: initializer for initializer in prepared.graph.initializer}
    assert (list(found["w"].dims), found["w"].raw_data) == ([6, 512], b"")
    assert len(found["frozen"].raw_data) == 8 * 4 * 512


def test_pads_of_some_axes_become_pads_of_all() -> None:
    """Between two transposes the engine's optimizer would mistake them."""
    nodes = [
        node("Transpose", ["x"], ["t"], perm=[2, 0, 1]),
        node("Pad", ["t", "pads", "", "axes"], ["p"]),
        node("Transpose", ["p"], ["y"], perm=[1, 2, 0]),
    ]
    numbers = {"pads": np.array([1, 2]), "axes": np.array([-1])}
    prepared = prepare(model(nodes, numbers))
    (pad,) = (n for n in prepared.graph.node if n.op_type == "Pad")
    assert len(pad.input) == 2
    x = normal(2, 4, 6)
    expected = np.pad(x, [(0, 0), (1, 2), (0, 0)])
    np.testing.assert_array_equal(run(prepared, {"x": x})["y"], expected)


def test_a_relu_that_only_a_pool_reads_goes_behind_it() -> None:
    nodes = [
        node("Relu", ["x"], ["r"]),
        node("MaxPool", ["r"], ["p"], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4),
        node("Relu", ["p"], ["q"]),
        node("MaxPool", ["q"], ["m"], kernel_shape=[1, 1]),
        node("Add", ["m", "q"], ["y"]),
    ]
    original = model(nodes, shape=["batch", 2, 5, 6])
    prepared = prepare(original)
    assert operators(prepared) == ["MaxPool", "Relu", "Relu", "MaxPool", "Add"]
    check_equal(original, prepared, 3, 2, 5, 6)
