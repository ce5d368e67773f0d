"""Rules of pooling."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gradients import FEW, Array, check, one_node, run
from hypothesis import given, settings
from hypothesis import strategies as st

from service.training.graph.step import differentiate, gradient_of


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape)


@given(st.sampled_from(["MaxPool", "AveragePool", "LpPool"]), st.data())
@settings(max_examples=40, **FEW)
def test_windows_of_any_form(op_type: str, data: st.DataObject) -> None:
    n = data.draw(st.sampled_from([1, 2, 2]))
    kernel = [data.draw(st.integers(1, 3)) for _ in range(n)]
    attributes: dict[str, Any] = {"kernel_shape": kernel}
    if data.draw(st.booleans()):
        attributes["strides"] = [data.draw(st.integers(1, 3)) for _ in range(n)]
    if data.draw(st.booleans()):
        attributes["pads"] = [data.draw(st.integers(0, k - 1)) for k in kernel * 2]
    if op_type == "AveragePool":
        attributes["count_include_pad"] = data.draw(st.integers(0, 1))
    if op_type != "LpPool":
        attributes["ceil_mode"] = data.draw(st.integers(0, 1)) if not _reaches(attributes, n) else 0
    x = normal(2, 2, *(data.draw(st.integers(4, 6)) for _ in range(n)))
    check(one_node(op_type, [x], symbolic=(0,), **attributes), {"x0": x})


def _reaches(attributes: dict[str, Any], n: int) -> bool:
    """With pads and a ceiling the evaluator and the engine do not agree on the last window."""
    return "pads" in attributes or "strides" in attributes


@pytest.mark.parametrize("op_type", ["GlobalMaxPool", "GlobalAveragePool", "GlobalLpPool"])
@pytest.mark.parametrize("symbolic", [(0,), (0, 2, 3)])
def test_one_window_over_everything(op_type: str, symbolic: tuple[int, ...]) -> None:
    x = normal(2, 3, 3, 4)
    check(one_node(op_type, [x], symbolic=symbolic), {"x0": x})


TIES = {
    "apart": {"kernel_shape": [2, 2], "strides": [2, 2]},
    "overlapping": {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]},
}


@pytest.mark.parametrize("form", TIES)
def test_the_first_of_equal_numbers_gets_the_gradient(form: str) -> None:
    x = np.zeros((1, 1, 4, 4), np.float32)
    model = one_node("MaxPool", [x], **TIES[form])
    step = differentiate(model, loss="y0", parameters=["x0"])
    expected = np.zeros((4, 4))
    # Of the overlapping windows the first number is in the pad's corner, and then at 1.
    firsts = (0, 2) if form == "apart" else (0, 1)
    expected[np.ix_(firsts, firsts)] = 1
    found = run(step, {"x0": x})[gradient_of("x0")]
    np.testing.assert_array_equal(found[0, 0], expected)


def test_numbers_put_back_by_max_unpool_get_what_is_there() -> None:
    x = normal(1, 2, 2, 2)
    places = np.array([0, 6, 8, 14, 17, 19, 24, 31]).reshape(1, 2, 2, 2)
    model = one_node("MaxUnpool", [x, places], kernel_shape=[2, 2], strides=[2, 2])
    check(model, {"x0": x, "x1": places})
