"""Convolutions of any number of axes, with groups, strides, dilations and pads."""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from service.training.graph.kernel_windows import WindowShape, bordered, shifted, windows_of
from service.training.graph.node import GradientRule, Gradients, Node
from service.training.graph.places import fixed, joined
from service.training.graph.rules.matrix import multiply
from service.training.graph.tensor import Tensor, product


def convolution(node: Node, g: Tensor) -> Gradients:
    """Conv: for x a transposed convolution of g, for the weights products of x and g."""
    x, weight = node.x, node.given(1)
    windows = windows_of(node, _kernel(node), x, node.y)
    groups = node.attribute("group", 1)
    return [
        _by_input(g, weight, x, windows, groups) if node.wants(0) else None,
        weight_gradient(x, g, weight, windows, groups) if node.wants(1) else None,
        _by_bias(node, g),
    ]


def transposed(node: Node, g: Tensor) -> Gradients:
    """ConvTranspose: the gradient of a convolution, so the reverse."""
    x, weight = node.x, node.given(1)
    windows = _transposed_windows(node)
    groups = node.attribute("group", 1)
    by_x = g.op("Conv", weight, group=groups, **windows.attributes).known_like(x)
    by_weight = weight_gradient(g, x, weight, windows, groups) if node.wants(1) else None
    return [by_x, by_weight, _by_bias(node, g)]


def _kernel(node: Node) -> tuple[int, ...]:
    shape = node.attribute("kernel_shape")
    weight = node.given(1)
    return tuple(shape or (fixed(weight, axis) for axis in range(2, weight.rank)))


def _transposed_windows(node: Node) -> WindowShape:
    """The output's size may determine the pads instead."""
    plain = windows_of(node, _kernel(node), node.y, node.x)
    if not node.attribute("output_shape"):
        return plain
    n = len(plain.kernel)
    extra = node.attribute("output_padding") or [0] * n
    befores, afters = [], []
    for i, span in enumerate(plain.spans):
        size, count = fixed(node.y, 2 + i), fixed(node.x, 2 + i)
        total = max(plain.strides[i] * (count - 1) + extra[i] + span - size, 0)
        small, large = total // 2, total - total // 2
        upper = node.attribute("auto_pad", "NOTSET") == "SAME_UPPER"
        befores.append(small if upper else large)
        afters.append(large if upper else small)
    return replace(plain, pads=(*befores, *afters))


def _by_bias(node: Node, g: Tensor) -> Tensor | None:
    return g.sum([0, *range(2, g.rank)]) if node.wants(2) else None


def _by_input(g: Tensor, weight: Tensor, x: Tensor, windows: WindowShape, groups: int) -> Tensor:
    if x.shape is None or not all(isinstance(d, int) for d in x.shape[2:]):
        return _by_input_of_any_size(g, weight, x, windows, groups)
    if windows.is_point and groups == 1:
        return g.op("Conv", weight.swap(0, 1)).known_like(x)
    if groups > 1 and _is_depthwise(weight, groups) and set(windows.strides) == {1}:
        pads = [s - 1 - p for s, p in zip(windows.spans * 2, windows.pads, strict=True)]
        if min(pads) >= 0:
            turned = weight.flip(*windows.axes)
            attributes = {"dilations": list(windows.dilations), "pads": pads, "group": groups}
            return g.op("Conv", turned, **attributes).known_like(x)
    extra = windows.beyond(x.whole_from(2), g.whole_from(2))
    result = g.op("ConvTranspose", weight, group=groups, output_padding=extra, **windows.attributes)
    return result.known_like(x)


def _by_input_of_any_size(
    g: Tensor, weight: Tensor, x: Tensor, windows: WindowShape, groups: int
) -> Tensor:
    """Without pads, then cropped or padded to the run-time size of x."""
    attributes = {"strides": list(windows.strides), "dilations": list(windows.dilations)}
    full = g.op("ConvTranspose", weight, group=groups, **attributes)
    graph, n = g.graph, len(windows.kernel)
    befores = graph.ints(windows.befores)
    rest = x.dims(2, 2 + n) + befores - full.dims(2, 2 + n)
    pads = graph.vector(0, 0, -befores if any(windows.befores) else befores, 0, 0, rest)
    return full.op("Pad", pads).known_like(x)


def weight_gradient(
    x: Tensor, g: Tensor, weight: Tensor, windows: WindowShape, groups: int
) -> Tensor:
    """Each weight's product of x and g over all samples and positions.

    The form depends on the known sizes: matrices for each position of a small kernel, else a
    convolution of x by g.
    """
    sized = g.shape is not None and all(isinstance(d, int) for d in g.shape[2:])
    if not sized or product(windows.kernel) > MANY_PLACES:
        return _by_convolution(x, g, weight, windows, groups)
    if groups == 1 and windows.is_point and product(g.sizes_of(windows.axes)) >= MANY_POINTS:
        return _by_samples(x, g, weight)
    if groups == 1:
        return _by_matrices(x, g, weight, windows)
    if _is_depthwise(weight, groups):
        narrow = len(windows.kernel) == 2 and fixed(x, 3) <= WIDE
        return (_depthwise_by_rows if narrow else _depthwise)(x, g, weight, windows)
    return _by_convolution(x, g, weight, windows, groups)


MANY_PLACES = 49
"""Kernels larger than 7 by 7 would make graphs of very many nodes."""
MANY_POINTS = 128
"""From this many positions on, one product per sample is faster than merging the samples."""


def _by_samples(x: Tensor, g: Tensor, weight: Tensor) -> Tensor:
    """Of a kernel of one place: (out, places)·(places, in) for each sample, summed."""
    places = product(g.sizes_of(range(2, g.rank)))
    rows = g.reshape(-1, fixed(weight, 0), places)
    columns = x.reshape(-1, fixed(weight, 1), places)
    return (rows @ columns.swap(1, 2)).sum([0]).reshape_like(weight)


FEW_CHANNELS = 8
"""Up to this many, one product with all positions side by side is faster than one for each."""


def _by_matrices(x: Tensor, g: Tensor, weight: Tensor, windows: WindowShape) -> Tensor:
    """One product (out, samples·places)·(samples·places, in) for each place of the kernel."""
    outs, ins = fixed(weight, 0), fixed(weight, 1)
    rows = g.swap(0, 1).reshape(outs, -1)
    seen = shifted(bordered(x.swap(0, 1), windows), windows, g.whole_from(2))
    if ins <= FEW_CHANNELS:
        columns = [part.reshape(ins, -1) for part in seen]
        product_ = multiply(rows, joined(columns, 0), tb=True).reshape(outs, len(columns), ins)
        return product_.swap(1, 2).reshape_like(weight)
    parts = [multiply(rows, part.reshape(ins, -1), tb=True) for part in seen]
    if len(parts) == 1:
        return parts[0].reshape_like(weight)
    return joined([part.unsqueeze(2) for part in parts], 2).reshape_like(weight)


def _depthwise(x: Tensor, g: Tensor, weight: Tensor, windows: WindowShape) -> Tensor:
    """Each channel has its own kernel: sums of products, position by position."""
    axes = [0, *windows.axes]
    parts = [
        (part * g).sum(axes).unsqueeze(1)
        for part in shifted(bordered(x, windows), windows, g.whole_from(2))
    ]
    return g.graph.op("Concat", *parts, axis=1).reshape_like(weight)


WIDE = 64
"""From this width on, products of whole rows compute too many unused results."""


def _depthwise_by_rows(x: Tensor, g: Tensor, weight: Tensor, windows: WindowShape) -> Tensor:
    """For each row of the kernel, x's rows times g's: every column of x with every one of g.

    A 0/1 matrix then adds the pairs of columns that meet at a position of the kernel.
    """
    channels, counts = fixed(weight, 0), [fixed(g, axis) for axis in (2, 3)]
    wide = bordered(x.swap(0, 1), windows)
    width = fixed(x, 3) + windows.befores[1] + windows.afters[1]
    rows = g.swap(0, 1).reshape(channels, -1, counts[1])
    at = np.arange(counts[1]) * windows.strides[1]
    columns = at[:, None] + np.arange(windows.kernel[1]) * windows.dilations[1]
    pairs = (np.arange(width)[:, None, None] == columns).reshape(-1, windows.kernel[1])
    ints, parts = g.graph.ints, []
    for row in range(windows.kernel[0]):
        start, step = row * windows.dilations[0], windows.strides[0]
        end = start + step * (counts[0] - 1) + 1
        seen = wide.op("Slice", ints([start]), ints([end]), ints([2]), ints([step]))
        products = seen.reshape(channels, -1, width).swap(1, 2) @ rows
        flat = products.reshape(channels, width * counts[1])
        parts.append(flat @ g.graph.numbers(pairs, g.dtype))
    return g.graph.op("Concat", *parts, axis=1).reshape_like(weight)


def _is_depthwise(weight: Tensor, groups: int) -> bool:
    """Does each channel have its own kernel?"""
    return weight.shape is not None and weight.shape[:2] == (groups, 1)


def _by_convolution(
    x: Tensor, g: Tensor, weight: Tensor, windows: WindowShape, groups: int
) -> Tensor:
    """x's channels become the samples and its samples the channels; strides and dilations swap."""
    ins = fixed(weight, 1)
    if groups > 1:
        places = [x.size(axis) for axis in windows.axes]
        split_up = x.reshape(-1, groups, ins, *places) if places else x
        perm = [2, 1, 0, *range(3, 3 + len(places))]
        turned = split_up.op("Transpose", perm=perm).reshape(ins, -1, *places)
    else:
        turned = x.swap(0, 1)
    result = turned.op(
        "Conv",
        g.swap(0, 1),
        group=groups,
        strides=list(windows.dilations),
        dilations=list(windows.strides),
        pads=list(windows.pads),
    )
    cropped = result.slice([0] * len(windows.kernel), windows.kernel, list(windows.axes))
    return cropped.known(ins, fixed(weight, 0), *windows.kernel).swap(0, 1).known_like(weight)


RULES: dict[str, GradientRule] = {"Conv": convolution, "ConvTranspose": transposed}
