"""Operators that are written out by ONNX's own definitions of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gradients import Array, check, gradients, one_node, reference, run, weighted
from onnx import TensorProto, helper, numpy_helper

from service.training.graph.passes.prepare import LOWERED, prepare
from service.training.graph.step import differentiate, gradient_of


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape)


def test_center_crop_pad() -> None:
    x = normal(4, 5)
    model = one_node("CenterCropPad", [x, np.array([2, 8])], constants=[1])
    assert not set(LOWERED) & {node.op_type for node in prepare(model).graph.node}
    check(model, {"x0": x})


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("options", [{}, {"ignore_index": 1}])
def test_a_loss_that_is_part_of_the_graph(reduction: str, options: dict[str, Any]) -> None:
    """float32: its definition casts. Against the softmax less the target."""
    logits = normal(4, 3).astype(np.float32)
    target = np.array([0, 1, 2, 1])
    model = one_node("SoftmaxCrossEntropyLoss", [logits, target], reduction=reduction, **options)
    found = run(differentiate(model, loss="y0", parameters=["x0"]), {"x0": logits, "x1": target})
    share = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    kept = target != options.get("ignore_index")
    expected = (share - np.eye(3)[target]) * kept[:, None]
    expected = expected / kept.sum() if reduction == "mean" else expected
    np.testing.assert_allclose(found[gradient_of("x0")], expected, rtol=1e-4, atol=1e-6)


def test_castlike_becomes_a_cast_even_where_its_model_is_trained() -> None:
    x, w = normal(2, 3), normal(3, seed=1)
    model = one_node("Mul", [x, w])
    like = helper.make_node("CastLike", ["x0", "x1"], ["c"], name="like")
    model.graph.node.insert(0, like)
    model.graph.node[1].input[0] = "c"
    check(model, {"x0": x, "x1": w})


def test_an_upsample_of_an_old_opset_is_trained_as_a_resize() -> None:
    x = normal(1, 2, 3, 3).astype(np.float32)
    model = one_node("Upsample", [x], opset=9, mode="nearest")
    model.graph.node[0].input.append("scales")
    scales = numpy_helper.from_array(np.array([1, 1, 2, 3], np.float32), "scales")
    model.graph.initializer.append(scales)
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y0", TensorProto.FLOAT, None))
    found = run(differentiate(model, loss="y0", parameters=["x0"]), {"x0": x})
    np.testing.assert_array_equal(found[gradient_of("x0")], np.full_like(x, 6))


def test_sizes_that_are_only_known_when_it_runs() -> None:
    """A batch that a Reshape hides from inference, through a bias and a product."""
    x, w, b = normal(2, 3, 4), normal(4, 5, seed=1), normal(3, 1, seed=2)
    shape = np.array([2, 3, 4])
    model = one_node("MatMul", [x, w])
    graph = model.graph
    graph.node.insert(0, helper.make_node("Reshape", ["x0", "shape"], ["r"], name="r"))
    graph.node[1].input[0], graph.node[1].output[0] = "r", "p"
    graph.node.append(helper.make_node("Add", ["p", "b"], ["y0"], name="add"))
    graph.input.append(helper.make_tensor_value_info("shape", TensorProto.INT64, [3]))
    graph.input.append(helper.make_tensor_value_info("b", TensorProto.DOUBLE, ["n", "m"]))
    feeds = {"x0": x, "x1": w, "shape": shape, "b": b}
    check(model, feeds)
    assert gradients(weighted(model, feeds), feeds, ["b"])["b"].shape == (3, 1)


NEW = 23
"""An opset of operators that no runtime of opset 21 knows."""


def test_a_normalization_by_the_root_of_the_mean_square() -> None:
    x, scale = normal(3, 4, 5), normal(5, seed=1)
    model = prepare(one_node("RMSNormalization", [x, scale], opset=NEW, axis=-1, stash_type=11))
    feeds = {"x0": x, "x1": scale}
    (found,) = reference(model).run(None, feeds)
    expected = x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * scale
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    check(model, feeds, engine=False)  # it casts to float64


@pytest.mark.parametrize("interleaved", [0, 1])
def test_positions_as_rotations(interleaved: int) -> None:
    x, places = normal(2, 3, 4, 6), np.array([[0, 1, 2, 3], [2, 3, 4, 5]])
    turns = [normal(7, 3, seed=seed) for seed in (1, 2)]
    model = one_node("RotaryEmbedding", [x, *turns, places], opset=NEW, interleaved=interleaved)
    check(model, {"x0": x, "x1": turns[0], "x2": turns[1], "x3": places})


@pytest.mark.parametrize(
    ("attributes", "mask"), [({}, False), ({"is_causal": 1}, False), ({"scale": 0.3}, True)]
)
@pytest.mark.parametrize("heads", [2, 4])
def test_attention_of_heads(attributes: dict[str, Any], mask: bool, heads: int) -> None:
    """Four heads of queries, and as many or fewer of keys and values."""
    query = normal(2, 4, 3, 6)
    rest = [normal(2, heads, 5, 6, seed=seed) for seed in (1, 2)]
    inputs = [query, *rest, *([normal(3, 5, seed=3)] if mask else [])]
    model = one_node("Attention", inputs, opset=NEW, **attributes)
    check(model, {f"x{place}": value for place, value in enumerate(inputs)})


def test_attention_of_a_query_that_may_read_nothing_has_no_gradient() -> None:
    """ONNX defines its result as 0, as PyTorch does."""
    query, key, value = (normal(2, 2, 3, 4, seed=seed) for seed in range(3))
    mask = np.array([[False, False, False], [True, False, False], [True, True, False]])
    model = one_node("Attention", [query, key, value, mask], opset=NEW)
    with np.errstate(invalid="ignore"):  # The reference subtracts infinity from infinity.
        check(model, {"x0": query, "x1": key, "x2": value, "x3": mask})
