"""The rules of GridSample, AffineGrid and Col2Im, by central differences."""

from __future__ import annotations

import numpy as np
import pytest
from gradients import Array, check, one_node

from service.training.errors import GraphRefused
from service.training.graph.step import differentiate


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape)


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("aligned", [0, 1])
@pytest.mark.parametrize("sizes", [(4, 5), (3, 1), (2, 3, 4)])
def test_sampling_between_pixels_and_outside(
    sizes: tuple[int, ...], aligned: int, padding: str
) -> None:
    grid = np.random.default_rng(1).uniform(-1.7, 1.7, (2, *range(2, 2 + len(sizes)), len(sizes)))
    x = normal(2, 3, *sizes)
    model = one_node("GridSample", [x, grid], opset=20, padding_mode=padding, align_corners=aligned)
    check(model, {"x0": x, "x1": grid})


def test_the_batch_of_images_and_grids_may_be_open() -> None:
    grid = np.random.default_rng(1).uniform(-0.9, 0.9, (2, 3, 3, 2))
    x = normal(2, 1, 4, 4)
    check(one_node("GridSample", [x, grid], opset=20, symbolic=[0]), {"x0": x, "x1": grid})


def test_cubic_sampling_is_refused_by_name() -> None:
    inputs = [normal(1, 1, 4, 4), normal(1, 2, 2, 2)]
    model = one_node("GridSample", inputs, opset=20, mode="cubic")
    with pytest.raises(GraphRefused) as refused:
        differentiate(model, loss="y0", parameters=["x0"])
    assert "its mode is cubic" in refused.value.problems[0].detail


@pytest.mark.parametrize("aligned", [0, 1])
@pytest.mark.parametrize("size", [[2, 3, 4, 5], [2, 1, 3, 1], [2, 1, 2, 3, 4]])
def test_a_grid_of_an_affine_map(size: list[int], aligned: int) -> None:
    axes = len(size) - 2
    theta = normal(2, axes, axes + 1)
    model = one_node(
        "AffineGrid", [theta, np.array(size)], constants=[1], opset=20, align_corners=aligned
    )
    check(model, {"x0": theta})


@pytest.mark.parametrize(
    ("image", "block", "blocks", "more"),
    [
        ([4, 5], [2, 2], 12, {}),
        ([5, 6], [2, 3], 20, {"dilations": [2, 1], "pads": [1, 2, 1, 2], "strides": [1, 2]}),
        ([7], [3], 3, {"strides": [2]}),
        ([3, 3, 3], [2, 2, 2], 8, {}),
    ],
)
def test_blocks_that_are_added_up(
    image: list[int], block: list[int], blocks: int, more: dict[str, list[int]]
) -> None:
    columns = normal(2, 2 * int(np.prod(block)), blocks)
    inputs = [columns, np.array(image), np.array(block)]
    check(one_node("Col2Im", inputs, constants=[1, 2], symbolic=[0], **more), {"x0": columns})
