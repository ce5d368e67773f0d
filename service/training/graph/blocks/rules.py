"""Gradients of convolutions in the runtime's own layout."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from msgspec import Struct

from service.training.graph.blocks.layout import (
    OWN,
    block_windows,
    convolve_back,
    from_blocks,
    padded,
    side_by_side,
    sizes,
    to_blocks,
)
from service.training.graph.blocks.weight_rules import by_weight, over_places
from service.training.graph.kernel_windows import WindowShape
from service.training.graph.node import GradientRule, Gradients, Node
from service.training.graph.places import fixed
from service.training.graph.rules.activation import above_zero
from service.training.graph.tensor import Dim, Tensor

Form: TypeAlias = tuple[Dim, int, int, int]
"""Batch, channels, rows, columns."""


def convolution(node: Node, g: Tensor) -> Gradients:
    """By x a convolution too, by the weights products of x and g."""
    x, weight, groups = node.x, node.given(1), node.attribute("group")
    windows = block_windows(node)
    g = _before_activation(node, g)
    return [
        _by_x(g, weight, x, windows, groups) if node.wants(0) else None,
        by_weight(x, g, weight, windows, groups) if node.wants(1) else None,
        over_places(g, weight.whole[0]) if node.wants(2) else None,
    ]


def _before_activation(node: Node, g: Tensor) -> Tensor:
    """The gradient of what the activation reads, from what it gives."""
    y = node.y
    kind = node.attribute("activation", "")
    if kind == "Relu":
        return g * above_zero(y)
    if kind == "Sigmoid":
        return g * (y - y * y)
    if kind == "Tanh":
        return g - g * (y * y)
    assert not kind, kind
    return g


def _by_x(g: Tensor, weight: Tensor, x: Tensor, windows: WindowShape, groups: int) -> Tensor:
    block = g.graph.layout.block
    batch, channels, rows, columns = sizes(x)
    shape = (batch, padded(channels, block), rows, columns)
    if set(windows.strides) == {1}:
        pads = [s - 1 - p for s, p in zip(windows.spans * 2, windows.pads, strict=True)]
        phases = None
    else:
        phases = find_phases(windows, (rows, columns), sizes(g)[2:])
        pads = [0] if phases else [-1]
    if min(pads) < 0:
        return _transposed(g, weight, x, windows, groups)
    if phases is None:
        turned = WindowShape(windows.kernel, tuple(pads), dilations=windows.dilations)
        gradient = convolve_back(g, weight, turned, shape, groups=groups)
    else:

        def part(own: WindowShape, places: Sequence[Sequence[int]], size: Form) -> Tensor:
            return convolve_back(g, weight, own, size, groups=groups, places=places)

        gradient = interleaved(g, shape, phases, part)
    return from_blocks(gradient, channels) if channels % block else gradient


class Phase(Struct, frozen=True):
    """The numbers of x, along an axis, whose windows hold them at the same places of the kernel.

    places: of the kernel, by this stride. before, after: pads of g.
    """

    places: tuple[int, ...]
    before: int
    after: int
    dilation: int


def find_phases(
    windows: WindowShape, whole: Sequence[int], counts: Sequence[int]
) -> list[list[Phase]] | None:
    """Of each axis, in the order of x; None if a phase would need a part of g alone."""
    phases = []
    for axis, (size, count) in enumerate(zip(whole, counts, strict=True)):
        stride, kernel = windows.strides[axis], windows.kernel[axis]
        before, dilation = windows.pads[axis], windows.dilations[axis]
        if stride > 1 and dilation > 1:
            return None
        own = []
        length = -(-size // stride)
        for first in range(before, before + stride):
            residue, start = first % stride, first // stride
            places = tuple(range(residue, kernel, stride))
            extent = (len(places) - 1) * dilation
            phase = Phase(places, extent - start, start + length - count, dilation)
            if places and min(phase.before, phase.after) < 0:
                return None
            own.append(phase)
        phases.append(own)
    return phases


def interleaved(
    g: Tensor,
    shape: Form,
    phases: list[list[Phase]],
    part: Callable[[WindowShape, Sequence[Sequence[int]], Form], Tensor],
) -> Tensor:
    """A small convolution for each pair of phases, put side by side. shape: of the result."""
    graph, block = g.graph, g.graph.layout.block
    batch, channels, rows, columns = shape
    strides = [len(own) for own in phases]
    counts = [-(-size // stride) for size, stride in zip((rows, columns), strides, strict=True)]
    small = (batch, channels, counts[0], counts[1])
    parts: list[list[Tensor]] = []
    for above in phases[0]:
        parts.append([])
        for beside in phases[1]:
            if above.places and beside.places:
                pads = (above.before, beside.before, above.after, beside.after)
                kernel = (len(above.places), len(beside.places))
                own = WindowShape(kernel, pads, dilations=(above.dilation, beside.dilation))
                piece = part(own, (above.places, beside.places), small)
            else:
                size = graph.vector(g.size(0), channels, *counts)
                piece = graph.numbers(0.0, g.dtype).op("Expand", size).known(*small)
            parts[-1].append(piece.reshape(-1, *counts, block))
    return side_by_side(parts, (rows, columns)).reshape(*shape)


def _transposed(g: Tensor, weight: Tensor, x: Tensor, windows: WindowShape, groups: int) -> Tensor:
    """In ONNX's layout."""
    whole = sizes(x)[2:]
    extra = windows.beyond(whole, sizes(g)[2:])
    attributes = windows.attributes | {"group": groups, "output_padding": extra}
    result = from_blocks(g, weight.whole[0]).op("ConvTranspose", weight, **attributes)
    channels = weight.whole[1] * groups
    result = result.known(x.ranked[0], channels, *whole)
    block = g.graph.layout.block
    return to_blocks(result, block) if fixed(x, 1) % block == 0 else result


RULES: dict[str, GradientRule] = {f"{OWN}.Conv": convolution}
