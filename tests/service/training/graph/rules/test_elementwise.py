"""Rules of one number from one, two or many."""

from __future__ import annotations

import numpy as np
import pytest
from gradients import FEW, Array, check, gradients, one_node, weighted
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

UNARY = {
    "Abs": (-2, 2),
    "Acos": (-0.9, 0.9),
    "Acosh": (1.1, 3),
    "Asin": (-0.9, 0.9),
    "Asinh": (-2, 2),
    "Atan": (-2, 2),
    "Atanh": (-0.9, 0.9),
    "Celu": (-2, 2),
    "Cos": (-3, 3),
    "Cosh": (-2, 2),
    "Elu": (-2, 2),
    "Erf": (-2, 2),
    "Exp": (-2, 2),
    "HardSigmoid": (-4, 4),
    "HardSwish": (-4, 4),
    "Identity": (-2, 2),
    "LeakyRelu": (-2, 2),
    "Log": (0.2, 3),
    "Mish": (-2, 2),
    "Neg": (-2, 2),
    "Reciprocal": (0.3, 2),
    "Relu": (-2, 2),
    "Selu": (-2, 2),
    "Shrink": (-2, 2),
    "Sigmoid": (-3, 3),
    "Sin": (-3, 3),
    "Sinh": (-2, 2),
    "Softplus": (-3, 3),
    "Softsign": (-2, 2),
    "Sqrt": (0.2, 3),
    "Tan": (-1.2, 1.2),
    "Tanh": (-2, 2),
    "ThresholdedRelu": (-2, 2),
}
ATTRIBUTES = {
    "Celu": {"alpha": 0.7},
    "Elu": {"alpha": 1.3},
    "HardSigmoid": {"alpha": 0.3, "beta": 0.4},
    "LeakyRelu": {"alpha": 0.2},
    "Selu": {"alpha": 1.5, "gamma": 1.2},
    "Shrink": {"lambd": 0.4, "bias": 0.1},
    "ThresholdedRelu": {"alpha": 0.5},
}


def drawn(low: float, high: float, *shape: int, seed: int = 0) -> Array:
    """Numbers that are at least 0.001 from every tenth, where kinks are."""
    steps = np.random.default_rng(seed).uniform(low, high, shape)
    near = np.round(steps, 1)
    return np.where(np.abs(steps - near) < 1e-3, near + 2e-3, steps)


@pytest.mark.parametrize("op_type", UNARY)
def test_an_operator_of_one_number_has_the_slope_that_differences_show(op_type: str) -> None:
    for attributes in {}, ATTRIBUTES.get(op_type, {}):
        x = drawn(*UNARY[op_type], 4, 5)
        check(one_node(op_type, [x], **attributes), {"x0": x})


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_both_forms_of_gelu(approximate: str) -> None:
    x = drawn(-3, 3, 4, 5)
    check(one_node("Gelu", [x], opset=20, approximate=approximate), {"x0": x})


SIZES = st.lists(st.integers(1, 3), min_size=0, max_size=3)


@given(SIZES, st.data(), st.sampled_from(["Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "Mod"]))
@settings(max_examples=40, **FEW)
def test_what_was_broadcast_is_summed(shape: list[int], data: st.DataObject, op_type: str) -> None:
    def side(seed: int) -> Array:
        kept = [n if data.draw(st.booleans()) else 1 for n in shape]
        start = data.draw(st.integers(0, len(shape)))
        return drawn(0.5, 2.9, *kept[start:], seed=seed)

    a, b = side(1), side(2)
    symbolic = data.draw(st.sampled_from([(), (0,), (0, 1, 2)]))
    attributes = {"fmod": 1} if op_type == "Mod" else {}
    check(one_node(op_type, [a, b], symbolic=symbolic, **attributes), {"x0": a, "x1": b})


def test_what_was_broadcast_is_summed_where_not_even_the_rank_is_known() -> None:
    a, b, shape = drawn(1, 2, 6), drawn(1, 2, 3, seed=1), np.array([2, 3])
    model = one_node("Mul", [a, b])
    model.graph.node.insert(0, helper.make_node("Reshape", ["x0", "shape"], ["r"], name="r"))
    model.graph.node[1].input[0] = "r"
    dims = ["rank"]
    model.graph.input.append(helper.make_tensor_value_info("shape", TensorProto.INT64, dims))
    check(model, {"x0": a, "x1": b, "shape": shape})


@pytest.mark.parametrize("op_type", ["Sum", "Mean", "Max", "Min"])
def test_many_inputs_are_summed_to_their_shapes(op_type: str) -> None:
    inputs = [drawn(-2, 2, 2, 3, seed=1), drawn(-2, 2, 3, seed=2), drawn(-2, 2, 2, 1, seed=3)]
    check(one_node(op_type, inputs), {f"x{i}": v for i, v in enumerate(inputs)})


def test_equal_inputs_of_max_share_the_gradient() -> None:
    x = np.array([1.0, 2.0])
    feeds = {"x0": x, "x1": x.copy()}
    found = gradients(weighted(one_node("Max", [x, x]), feeds), feeds, ["x0", "x1"])
    np.testing.assert_array_equal(found["x0"], found["x1"])


def test_where_sends_the_gradient_to_the_side_it_took() -> None:
    condition = np.array([[True], [False]])
    a, b = drawn(-1, 1, 2, 3, seed=1), drawn(-1, 1, 3, seed=2)
    check(one_node("Where", [condition, a, b]), {"x0": condition, "x1": a, "x2": b})


def test_prelu_learns_a_slope_for_each_channel() -> None:
    x, slope = drawn(-1, 1, 2, 3, 4), drawn(0.1, 0.4, 3, 1)
    check(one_node("PRelu", [x, slope]), {"x0": x, "x1": slope})


def test_clip_passes_on_what_is_inside() -> None:
    x = drawn(-3, 3, 4, 5)
    low, high = np.array(-1.0005), np.array(1.0005)
    check(one_node("Clip", [x, low, high]), {"x0": x, "x1": low, "x2": high})
    check(one_node("Clip", [x, None, high]), {"x0": x, "x2": high})


@pytest.mark.parametrize("exponent", [np.array(2.0), np.array(0.5), np.array(3), np.array([2, 3])])
def test_a_constant_exponent_may_be_any_number(exponent: Array) -> None:
    x = drawn(0.3, 2, 4, 2)
    check(one_node("Pow", [x, exponent], constants=[1]), {"x0": x})


def test_kinks_have_the_slopes_of_pytorch() -> None:
    at_kink = {"Relu": (0.0, 0.0), "Abs": (0.0, 0.0), "Clip": (-1.0, 1.0), "LeakyRelu": (0.0, 0.01)}
    for op_type, (x, slope) in at_kink.items():
        value = np.full(3, x)
        bounds = [np.array(-1.0), np.array(1.0)] if op_type == "Clip" else []
        model = one_node(op_type, [value, *bounds], constants=range(1, 1 + len(bounds)))
        feeds = {"x0": value}
        found = gradients(weighted(model, feeds), feeds, ["x0"])["x0"]
        weights = np.random.default_rng(5).normal(size=3)
        np.testing.assert_allclose(found, slope * weights, err_msg=op_type)
