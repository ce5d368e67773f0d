"""Resize: a matrix along each axis, so the gradient is the transposed one.

The matrix follows the coordinates and coefficients of ONNX's operator page, Resize-19.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from service.training.graph.node import GradientRule, Gradients, Node
from service.training.graph.places import along, fixed
from service.training.graph.tensor import Array, NotDifferentiable, Tensor

ROUNDED: dict[str, Callable[[Array], Array]] = {
    "ceil": np.ceil,
    "floor": np.floor,
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
}


def resize(node: Node, g: Tensor) -> Gradients:
    """Axis after axis; whole blocks of equal numbers are summed by pooling."""
    x, axes = node.x, node.x.axes(node.attribute("axes"))
    if node.attribute("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise NotDifferentiable("it keeps the aspect ratio; export it with sizes of its own")
    given = node.optional(2)
    if given is not None and given.value is None and node.optional(3) is None:
        raise NotDifferentiable("its scales are not constant")
    scales = None if given is None or given.value is None or not given.value.size else given.value
    blocks: dict[int, int] = {}
    for i, axis in enumerate(axes):
        if scales[i] == 1 if scales is not None else _is_same(x, node.y, axis):
            continue
        size, count = fixed(x, axis), fixed(node.y, axis)
        scale = count / size if scales is None else float(scales[i])
        matrix = interpolation(node, size, count, scale)
        times = count // size
        if times * size == count and (matrix == np.repeat(np.eye(size), times, 0)).all():
            blocks[axis] = times
        else:
            g = along(g, axis, matrix)
    return [_block_sums(g, blocks).known_like(x), None, None, None]


def _is_same(x: Tensor, y: Tensor, axis: int) -> bool:
    size = x.shape[axis] if x.shape is not None else None
    return size is not None and y.shape is not None and size == y.shape[axis]


def _block_sums(g: Tensor, blocks: dict[int, int]) -> Tensor:
    """The mean of each block times its size."""
    if not blocks or min(blocks) < 2:
        for axis, times in blocks.items():
            size = fixed(g, axis)
            g = along(g, axis, np.repeat(np.eye(size // times), times, 0))
        return g
    kernel = [blocks.get(axis, 1) for axis in range(2, g.rank)]
    return g.op("AveragePool", kernel_shape=kernel, strides=kernel) * float(np.prod(kernel))


def interpolation(node: Node, size: int, count: int, scale: float) -> Array:
    """The weight of each number in each result. Shape: (count, size)."""
    places = _places(node, size, count, scale)
    mode = node.attribute("mode", "nearest")
    if mode == "nearest":
        rounded = ROUNDED[node.attribute("nearest_mode", "round_prefer_floor")](places)
        return np.asarray(np.eye(size)[np.clip(rounded, 0, size - 1).astype(int)])
    stretch = min(scale, 1.0) if node.attribute("antialias", 0) else 1.0
    reach = 1 if mode == "linear" else 2
    first = int(np.floor(-reach / stretch) + 1)
    near = np.floor(places)[:, None] + np.arange(first, 2 - first)
    distance = (near - places[:, None]) * stretch
    if mode == "linear":
        weights = np.clip(1 - np.abs(distance), 0, 1)
    else:
        weights = _cubic(np.abs(distance), node.attribute("cubic_coeff_a", -0.75))
    if node.attribute("exclude_outside", 0):
        weights = weights * ((near >= 0) & (near < size))
    weights = weights / weights.sum(1, keepdims=True)
    matrix = np.zeros((count, size))
    rows = np.repeat(np.arange(count), near.shape[1])
    columns = np.clip(near, 0, size - 1).astype(int).reshape(-1)
    np.add.at(matrix, (rows, columns), weights.reshape(-1))
    return matrix


def _cubic(distance: Array, a: float) -> Array:
    """Keys' kernel."""
    near = ((a + 2) * distance - (a + 3)) * distance**2 + 1
    far = ((distance - 5) * distance + 8) * distance * a - 4 * a
    return np.where(distance <= 1, near, np.where(distance < 2, far, 0))


def _places(node: Node, size: int, count: int, scale: float) -> Array:
    """The position of each result between the numbers that it is computed from."""
    at = np.arange(count)
    half = (at + 0.5) / scale - 0.5
    mode = node.attribute("coordinate_transformation_mode", "half_pixel")
    places = {
        "align_corners": at * ((size - 1) / max(count - 1, 1)),
        "asymmetric": at / scale,
        "half_pixel": half,
        "half_pixel_symmetric": half + size / 2 * (1 - count / (scale * size)),
        "pytorch_half_pixel": half if count > 1 else np.zeros(count),
        "tf_half_pixel_for_nn": (at + 0.5) / scale,
    }
    if mode not in places:
        raise NotDifferentiable(f"its coordinates are {mode}")
    return np.asarray(places[mode])


RULES: dict[str, GradientRule] = {"Resize": resize}
