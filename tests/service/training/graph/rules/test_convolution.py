"""Rules of Conv and ConvTranspose."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gradients import FEW, Array, check, one_node
from hypothesis import assume, given, settings
from hypothesis import strategies as st


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape)


@given(st.data())
@settings(max_examples=25, **FEW)
def test_convolutions_of_any_form(data: st.DataObject) -> None:
    n = data.draw(st.sampled_from([1, 2, 2, 3]))
    groups, ins, outs = (data.draw(st.integers(1, 2)) for _ in range(3))
    kernel = [data.draw(st.integers(1, 3)) for _ in range(n)]
    attributes: dict[str, Any] = {
        "strides": [data.draw(st.integers(1, 2)) for _ in range(n)],
        "dilations": [data.draw(st.integers(1, 2)) for _ in range(n)],
        "group": groups,
    }
    if data.draw(st.booleans()):
        attributes["pads"] = [data.draw(st.integers(0, 2)) for _ in range(2 * n)]
    else:
        attributes["dilations"] = [1] * n  # The engine takes no others with an automatic pad.
        attributes["auto_pad"] = data.draw(st.sampled_from(["SAME_UPPER", "SAME_LOWER", "VALID"]))
    sizes = [data.draw(st.integers(5, 6)) for _ in range(n)] if n < 3 else [5, 5, 5]
    x = normal(2, groups * ins, *sizes, seed=1)
    weight = normal(groups * outs, ins, *kernel, seed=2)
    bias = normal(groups * outs, seed=3)
    fixed_pads = "pads" in attributes or attributes["auto_pad"] == "VALID"
    symbolic = data.draw(st.sampled_from([(0,), (0, 2, 3, 4)] if fixed_pads else [(0,)]))
    model = one_node("Conv", [x, weight, bias], symbolic=(), **attributes)
    dims = model.graph.input[0].type.tensor_type.shape.dim
    for axis in symbolic:
        if axis < len(dims):
            dims[axis].dim_param = f"d{axis}"
    check(model, {"x0": x, "x1": weight, "x2": bias})


@given(st.data())
@settings(max_examples=25, **FEW)
def test_transposed_convolutions_of_any_form(data: st.DataObject) -> None:
    n = data.draw(st.sampled_from([1, 2, 2]))
    groups = data.draw(st.integers(1, 2))
    kernel = [data.draw(st.integers(1, 3)) for _ in range(n)]
    strides = [data.draw(st.integers(1, 2)) for _ in range(n)]
    dilations = [data.draw(st.integers(1, 2)) for _ in range(n)]
    x, weight = normal(2, groups, *[4] * n, seed=1), normal(groups, 2, *kernel, seed=2)
    attributes: dict[str, Any] = {"strides": strides, "dilations": dilations, "group": groups}
    attributes["pads"] = [
        data.draw(st.integers(0, min(1, (k - 1) * d)))
        for k, d in zip(kernel * 2, dilations * 2, strict=True)
    ]
    attributes["output_padding"] = [data.draw(st.integers(0, s - 1)) for s in strides]
    assume(
        all(
            p < d or p < s
            for p, d, s in zip(attributes["output_padding"], dilations, strides, strict=True)
        )
    )
    bias = normal(2 * groups, seed=3)
    model = one_node("ConvTranspose", [x, weight, bias], **attributes)
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"
    check(model, {"x0": x, "x1": weight, "x2": bias})


@pytest.mark.parametrize("auto_pad", ["NOTSET", "SAME_UPPER", "SAME_LOWER"])
def test_a_transposed_convolution_may_tell_the_size_of_its_output(auto_pad: str) -> None:
    x, weight = normal(1, 2, 3, 3), normal(2, 2, 3, 3, seed=1)
    model = one_node(
        "ConvTranspose", [x, weight], strides=[2, 2], output_shape=[6, 6], auto_pad=auto_pad
    )
    check(model, {"x0": x, "x1": weight})


def test_large_kernels_and_depthwise_ones() -> None:
    x, weight = normal(2, 2, 9, 9), normal(3, 2, 8, 8, seed=1)
    check(one_node("Conv", [x, weight], pads=[3, 3, 3, 3]), {"x0": x, "x1": weight})
    x, weight = normal(2, 3, 5, 6), normal(3, 1, 3, 3, seed=1)
    model = one_node("Conv", [x, weight], pads=[1, 1, 1, 1], strides=[2, 1], group=3)
    check(model, {"x0": x, "x1": weight})


@pytest.mark.parametrize("size", [(3, 4), (12, 12), (130,)])
def test_a_kernel_of_one_place(size: tuple[int, ...]) -> None:
    x, weight = normal(2, 3, *size), normal(4, 3, *(1 for _ in size), seed=1)
    model = one_node("Conv", [x, weight])
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"
    check(model, {"x0": x, "x1": weight})


FORMS: list[dict[str, Any]] = [
    {"pads": [1, 1, 1, 1]},
    {"pads": [0, 2, 1, 0], "strides": [2, 3]},
    {"pads": [3, 3, 3, 3], "dilations": [2, 1]},
    {"dilations": [1, 2], "strides": [1, 2]},
]


@pytest.mark.parametrize("attributes", FORMS)
@pytest.mark.parametrize("width", [8, 70])
def test_a_kernel_for_each_channel(attributes: dict[str, Any], width: int) -> None:
    x, weight = normal(2, 3, 7, width), normal(3, 1, 3, 2, seed=1)
    model = one_node("Conv", [x, weight], group=3, **attributes)
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"
    check(model, {"x0": x, "x1": weight})
