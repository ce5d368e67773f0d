"""Stacks of convolution and pooling, which train in a layout of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from gradients import FEW, OPSET, Array, check, run
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from service.training.graph.passes.spatial_first import MAX_SEEN
from service.training.graph.step import differentiate, gradient_of


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape)


def conv(x: str, y: str, **attributes: Any) -> onnx.NodeProto:
    """With the weights y.weight and y.bias."""
    return helper.make_node("Conv", [x, f"{y}.weight", f"{y}.bias"], [y], name=y, **attributes)


def pool(x: str, y: str, *kernel: int) -> onnx.NodeProto:
    sizes = list(kernel)
    return helper.make_node("MaxPool", [x], [y], name=y, kernel_shape=sizes, strides=sizes)


def relu(x: str, y: str) -> onnx.NodeProto:
    return helper.make_node("Relu", [x], [y], name=y)


def model_of(
    nodes: list[onnx.NodeProto], feeds: dict[str, Array], *outputs: str, batch: str | int = "batch"
) -> onnx.ModelProto:
    def described(name: str, value: Array) -> onnx.ValueInfoProto:
        dims = [batch, *value.shape[1:]] if name == "x" else value.shape
        return helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(value.dtype), dims
        )

    graph = helper.make_graph(
        nodes,
        "stack",
        [described(*pair) for pair in feeds.items()],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)


def operators(model: onnx.ModelProto, feeds: dict[str, Array], loss: str) -> set[str]:
    """Those of the step of the sum of a tensor."""
    summed = onnx.ModelProto()
    summed.CopyFrom(model)
    del summed.graph.output[:]
    summed.graph.output.append(helper.make_empty_tensor_value_info(loss))
    step = differentiate(summed, loss=loss, parameters=[name for name in feeds if name != "x"])
    return {node.op_type for node in step.graph.node}


@given(st.data())
@settings(max_examples=16, **FEW)
def test_convolutions_with_pools_of_any_form(data: st.DataObject) -> None:
    n = data.draw(st.sampled_from([1, 2, 2, 2]))
    kernel = [data.draw(st.integers(1, 3)) for _ in range(n)]
    window = [data.draw(st.integers(1, 3)) for _ in range(n)]
    ins, outs = data.draw(st.sampled_from([1, 3, 9])), data.draw(st.integers(1, 3))
    attributes: dict[str, Any] = {
        "strides": [data.draw(st.integers(1, 2)) for _ in range(n)],
        "dilations": [data.draw(st.integers(1, 2)) for _ in range(n)],
        "pads": [data.draw(st.integers(0, 2)) for _ in range(2 * n)],
    }
    feeds = {
        "x": normal(2, ins, *(data.draw(st.integers(9, 12)) for _ in range(n))),
        "a.weight": normal(outs, ins, *kernel, seed=1),
        "a.bias": normal(outs, seed=2),
    }
    nodes = [conv("x", "a", **attributes), relu("a", "b"), pool("b", "c", *window)]
    model = model_of(nodes, feeds, "c", batch=data.draw(st.sampled_from(["batch", 2])))
    assert operators(model, feeds, "c").isdisjoint({"Conv", "ConvTranspose", "MaxPool"})
    check(model, feeds)


@given(st.data())
@settings(max_examples=5, **FEW)
def test_stacks_whose_tensors_are_read_elsewhere_too(data: st.DataObject) -> None:
    sizes = {
        "strides": [data.draw(st.integers(1, 2))] * 2,
        "pads": [data.draw(st.integers(0, 1))] * 4,
    }
    feeds = {"x": normal(2, 2, 12, 10)}
    for seed, (name, ins, outs) in enumerate([("a", 2, 9), ("d", 9, 3), ("g", 3, 2)]):
        feeds[f"{name}.weight"] = normal(outs, ins, 3, 2, seed=seed + 1)
        feeds[f"{name}.bias"] = normal(outs, seed=seed + 9)
    nodes = [
        *(conv("x", "a", pads=[1, 1, 1, 1]), pool("a", "b", 2, 2), relu("b", "c")),
        *(
            conv("c", "d", **sizes),
            relu("d", "e"),
            helper.make_node("Tanh", ["c"], ["f"], name="f"),
        ),
        *(conv("e", "g", pads=[2, 2, 2, 2]), pool("g", "h", 2, 3)),
        helper.make_node("ReduceSum", ["c"], ["i"], name="i", keepdims=0),
    ]
    outputs = [data.draw(st.sampled_from("cdef")), "h", "i"]
    check(model_of(nodes, feeds, *outputs), feeds)


def test_the_first_of_equal_numbers_gets_the_gradient() -> None:
    feeds = {"x": np.zeros((2, 1, 6, 4), np.float32), "a.weight": np.ones((1, 1, 1, 1), np.float32)}
    nodes = [helper.make_node("Conv", ["x", "a.weight"], ["a"], name="a"), pool("a", "b", 2, 2)]
    step = differentiate(model_of(nodes, feeds, "b"), loss="b", parameters=["x"])
    expected = np.zeros((6, 4))
    expected[::2, ::2] = 1
    found = run(step, feeds)[gradient_of("x")]
    np.testing.assert_array_equal(found, np.broadcast_to(expected, (2, 1, 6, 4)))


@pytest.mark.parametrize(
    ("form", "reason"),
    [
        ({"channels": 2, "group": 2}, "it has groups"),
        ({"size": "side"}, "its size is not known"),
        ({"channels": MAX_SEEN // 16}, "its kernels see too much"),
    ],
)
def test_other_convolutions_stay_as_they_are(form: dict[str, Any], reason: str) -> None:
    channels = form.get("channels", 1)
    feeds = {
        "x": normal(1, channels, 8, 8),
        "a.weight": normal(2, channels // form.get("group", 1), 3, 3),
        "a.bias": normal(2),
    }
    model = model_of([conv("x", "a", group=form.get("group", 1)), pool("a", "b", 2, 2)], feeds, "b")
    assert model.graph.input[0].type.tensor_type.elem_type == TensorProto.DOUBLE
    if "size" in form:
        model.graph.input[0].type.tensor_type.shape.dim[2].dim_param = form["size"]
    assert "Conv" in operators(model, feeds, "b"), reason
