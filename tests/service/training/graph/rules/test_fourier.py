"""The rules of DFT and STFT, by central differences."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from gradients import FEW, Array, check, halved, one_node, run
from hypothesis import given, settings
from hypothesis import strategies as st
from onnxruntime.capi.onnxruntime_pybind11_state import Fail

from service.training.errors import GraphRefused
from service.training.graph.step import differentiate


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape)


@settings(max_examples=40, **FEW)
@given(data=st.data())
def test_a_transform_along_any_axis_of_any_length(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(1, 5), min_size=2, max_size=3))
    parts = data.draw(st.sampled_from([1, 2]))
    axis = data.draw(st.integers(0, len(sizes) - 1))
    axis -= data.draw(st.sampled_from([0, len(sizes) + 1]))
    length = data.draw(st.none() | st.integers(1, 7))
    onesided = data.draw(st.integers(0, 1)) if parts == 1 else 0
    inverse = 0 if onesided else data.draw(st.integers(0, 1))
    x = normal(*sizes, parts)
    given_length = None if length is None else np.array(length)
    model = one_node(
        "DFT",
        [x, given_length, np.array(axis)],
        constants=[*([] if length is None else [1]), 2],
        opset=20,
        inverse=inverse,
        onesided=onesided,
    )
    check(model, {"x0": x})


@pytest.mark.parametrize("axis", [0, 1, -2])
@pytest.mark.parametrize("length", [None, 1, 4, 5, 6, 7, 9])
def test_real_numbers_from_half_a_spectrum(axis: int, length: int | None) -> None:
    x = normal(4, 4, 4, 2)
    inputs = [x, None if length is None else np.array(length), np.array(axis)]
    constants = [2] if length is None else [1, 2]
    model = one_node("DFT", inputs, constants=constants, opset=20, inverse=1, onesided=1)
    check(model, {"x0": x}, engine=_runs(model, x))


def _runs(model: onnx.ModelProto, x: Array) -> bool:
    """ONNX Runtime 1.19 refuses a transform that is both inverse and onesided."""
    try:
        run(halved(model), {"x0": x.astype(np.float32)})
    except Fail as refused:
        return "cannot be enabled at the same time" not in str(refused)
    return True


@pytest.mark.parametrize("axis", [1, 2])
@pytest.mark.parametrize("onesided", [0, 1])
def test_before_opset_20_the_axis_is_an_attribute(axis: int, onesided: int) -> None:
    x = normal(2, 4, 5, 1)
    check(one_node("DFT", [x], opset=17, axis=axis, onesided=onesided), {"x0": x})


def test_the_length_of_a_whole_transform_may_be_open() -> None:
    x = normal(2, 6, 2)
    for inverse in (0, 1):
        check(one_node("DFT", [x], opset=20, symbolic=[0, 1], inverse=inverse), {"x0": x})


@pytest.mark.parametrize("onesided", [0, 1])
@pytest.mark.parametrize(
    ("samples", "step", "length"), [(16, 4, 8), (17, 3, 7), (8, 9, 8), (12, 5, 4), (6, 1, 1)]
)
@pytest.mark.parametrize("windowed", [True, False])
def test_a_short_time_transform(
    samples: int, step: int, length: int, onesided: int, *, windowed: bool
) -> None:
    x = normal(2, samples, 1)
    window = normal(length, seed=1) if windowed else None
    model = one_node(
        "STFT",
        [x, np.array(step), window, np.array(length)],
        constants=[1, 2, 3] if windowed else [1, 3],
        symbolic=[0],
        onesided=onesided,
    )
    check(model, {"x0": x})


def test_the_window_may_be_computed_and_its_length_be_that_of_the_frames() -> None:
    x, window = normal(2, 11, 1), normal(4, seed=1)
    model = one_node("STFT", [x, np.array(3), window], constants=[1], onesided=1)
    check(model, {"x0": x, "x2": window}, by=["x0"])


def test_a_short_time_transform_of_complex_numbers_is_refused() -> None:
    model = one_node("STFT", [normal(1, 8, 2), np.array(4), normal(4)], constants=[1, 2])
    with pytest.raises(GraphRefused) as refused:
        differentiate(model, loss="y0", parameters=["x0"])
    assert "not known to be real" in refused.value.problems[0].detail
