"""The rule of Resize."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gradients import Array, check, one_node


def normal(*shape: int) -> Array:
    return np.random.default_rng(0).normal(size=shape)


def check_resize(
    x: Array, *, scales: list[float] | None = None, sizes: list[int] | None = None, **more: Any
) -> None:
    by = np.array(scales or [], np.float32) if sizes is None else None
    to = None if sizes is None else np.array(sizes)
    constants = [2] if sizes is None else [3]
    inputs = [x, None, by] if sizes is None else [x, None, None, to]
    model = one_node("Resize", inputs, constants=constants, opset=19, **more)
    if scales is not None:
        model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"
    check(model, {"x0": x})


MODES = ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"]


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("coordinates", MODES)
@pytest.mark.parametrize("sizes", [[2, 2, 5, 8], [2, 2, 2, 3], [2, 2, 3, 2]])
def test_smooth_resizing_to_more_and_to_less(mode: str, coordinates: str, sizes: list[int]) -> None:
    check_resize(
        normal(2, 2, 3, 4), sizes=sizes, mode=mode, coordinate_transformation_mode=coordinates
    )


@pytest.mark.parametrize(
    "nearest_mode", ["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"]
)
@pytest.mark.parametrize("coordinates", ["half_pixel", "asymmetric"])
@pytest.mark.parametrize("scales", [[1, 1, 2, 2], [1, 1, 2, 1.5], [1, 1, 0.5, 3]])
def test_repeating_the_nearest(nearest_mode: str, coordinates: str, scales: list[float]) -> None:
    check_resize(
        normal(2, 2, 4, 4),
        scales=scales,
        mode="nearest",
        nearest_mode=nearest_mode,
        coordinate_transformation_mode=coordinates,
    )


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("exclude_outside", [0, 1])
def test_shrinking_without_aliases(mode: str, exclude_outside: int) -> None:
    check_resize(
        normal(1, 1, 8, 6),
        scales=[1, 1, 0.5, 0.5],
        mode=mode,
        antialias=1,
        exclude_outside=exclude_outside if mode == "cubic" else 0,
    )


def test_one_axis_of_a_sequence() -> None:
    check_resize(normal(2, 3, 4), scales=[1, 1, 2], mode="nearest", nearest_mode="floor")
    check_resize(normal(2, 3, 4), sizes=[2, 3, 6], mode="linear")
