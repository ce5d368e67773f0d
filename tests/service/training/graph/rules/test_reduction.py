"""Rules of reductions, softmax and cumulative sums."""

from __future__ import annotations

import numpy as np
import pytest
from gradients import FEW, Array, check, gradients, one_node, weighted
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper

REDUCTIONS = [
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSum",
    "ReduceLogSumExp",
    "ReduceMax",
    "ReduceMean",
    "ReduceMin",
    "ReduceProd",
    "ReduceSum",
    "ReduceSumSquare",
]


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape)


@given(st.sampled_from(REDUCTIONS), st.data())
@settings(max_examples=50, **FEW)
def test_reductions_over_any_axes(op_type: str, data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))
    x = normal(*shape)
    if op_type == "ReduceLogSum":
        x = np.abs(x) + 0.1
    axes = data.draw(st.lists(st.integers(0, len(shape) - 1), unique=True))
    axes = [a - len(shape) if data.draw(st.booleans()) else a for a in axes]
    given_axes = [np.array(axes, np.int64)] if axes else []
    keepdims = data.draw(st.integers(0, 1))
    symbolic = data.draw(st.sampled_from([(), (0,), (0, 1, 2, 3)]))
    model = one_node(
        op_type,
        [x, *given_axes],
        constants=[1][: len(given_axes)],
        symbolic=symbolic,
        keepdims=keepdims,
    )
    check(model, {"x0": x})


def test_a_product_with_zeros_has_the_gradient_of_the_others() -> None:
    x = np.array([[2.0, 0.0, 3.0], [0.0, 0.0, 5.0], [1.0, 2.0, 4.0]])
    model = one_node("ReduceProd", [x, np.array([1])], constants=[1], keepdims=0)
    check(model, {"x0": x})


def test_the_norm_of_zeros_has_no_slope() -> None:
    x = np.zeros((2, 3))
    model = one_node("ReduceL2", [x, np.array([1])], constants=[1], keepdims=0)
    found = gradients(weighted(model, {"x0": x}), {"x0": x}, ["x0"])
    np.testing.assert_array_equal(found["x0"], x)


def test_an_empty_axis_sums_to_nothing() -> None:
    x = np.zeros((2, 0))
    model = one_node("ReduceSum", [x, np.array([1])], constants=[1], keepdims=0)
    assert gradients(weighted(model, {"x0": x}), {"x0": x}, ["x0"])["x0"].shape == (2, 0)


@pytest.mark.parametrize("op_type", ["Softmax", "LogSoftmax"])
@pytest.mark.parametrize("axis", [0, 1, -1, None])
def test_softmax_along_any_axis(op_type: str, axis: int | None) -> None:
    x = normal(2, 3, 4)
    attributes = {} if axis is None else {"axis": axis}
    check(one_node(op_type, [x], symbolic=(0,), **attributes), {"x0": x})


def test_attention_rows_that_a_mask_excludes_as_a_whole_have_no_gradient() -> None:
    """PyTorch's attention replaces their softmax, which is NaN; as with padding on the left."""
    x = normal(2, 3, 4)
    with np.errstate(divide="ignore"):
        mask = np.log([[0.0, 0.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0], [1.0, 1.0, 0.0, 1.0]])
    model = one_node("Softmax", [x], symbolic=(0,))
    constants = {"mask": mask, "zero": np.array(0.0)}
    model.graph.initializer.extend(
        numpy_helper.from_array(value, name) for name, value in constants.items()
    )
    model.graph.node[0].input[0], model.graph.node[0].output[0] = "masked", "shares"
    model.graph.node.insert(0, helper.make_node("Add", ["x0", "mask"], ["masked"]))
    model.graph.node.append(helper.make_node("IsNaN", ["shares"], ["empty"]))
    model.graph.node.append(helper.make_node("Where", ["empty", "zero", "shares"], ["y0"]))
    with np.errstate(invalid="ignore"):  # The reference subtracts infinity from infinity.
        check(model, {"x0": x})


@pytest.mark.parametrize("order", [1, 2])
def test_normalization_by_a_norm(order: int) -> None:
    x = np.abs(normal(2, 3, 2)) if order == 1 else normal(2, 3, 2)
    check(one_node("LpNormalization", [x], axis=1, p=order), {"x0": x})


@pytest.mark.parametrize("reverse", [0, 1])
@pytest.mark.parametrize("exclusive", [0, 1])
def test_cumulative_sums_from_either_end(reverse: int, exclusive: int) -> None:
    x, axis = normal(2, 4), np.array(1)
    model = one_node("CumSum", [x, axis], constants=[1], reverse=reverse, exclusive=exclusive)
    check(model, {"x0": x})
