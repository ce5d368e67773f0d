"""Operators that move numbers: the gradient moves them back."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from service.training.graph.broadcast import unbroadcast
from service.training.graph.node import GradientRule, Gradients, Node
from service.training.graph.passes.pads import all_pads
from service.training.graph.places import add_back, fixed, put_back, put_back_computed
from service.training.graph.tensor import NotDifferentiable, Tensor

FAR = np.iinfo(np.int64).max


def reshaped(node: Node, g: Tensor) -> Gradients:
    """Reshape, Flatten, Squeeze, Unsqueeze."""
    return [g.reshape_like(node.x), None]


def transpose(node: Node, g: Tensor) -> Gradients:
    """The inverse permutation."""
    perm = node.attribute("perm") or list(reversed(range(node.x.rank)))
    return [g.transpose(*(int(i) for i in np.argsort(perm)))]


def expand(node: Node, g: Tensor) -> Gradients:
    """The sum over copies."""
    x, to = node.x, node.given(1)
    whole = Tensor(to.graph, to.name, x.dtype, None if to.value is None else (*to.value.tolist(),))
    return [unbroadcast(g, node.y, x, [x, whole]), None]


def concat(node: Node, g: Tensor) -> Gradients:
    """Each input's part of g."""
    axis = node.x.axis(node.attribute("axis"))
    sizes = [node.given(i).size(axis) for i in range(len(node.inputs))]
    lengths = node.graph.vector(*sizes)
    parts = node.graph.ops("Split", g, lengths, outputs=len(sizes), axis=axis)
    return [part.known_like(node.given(i)) for i, part in enumerate(parts)]


def split(node: Node, *gradients: Tensor | None) -> Gradients:
    """Parts that the loss does not depend on are zeros."""
    axis = node.x.axis(node.attribute("axis", 0))
    outputs = [node.output(i) for i in range(len(node.outputs))]
    parts = [g if g is not None else y.zeros() for g, y in zip(gradients, outputs, strict=False)]
    parts += [y.zeros() for y in outputs[len(gradients) :]]
    return [node.graph.op("Concat", *parts, axis=axis).known_like(node.x), None]


def slice_(node: Node, g: Tensor) -> Gradients:
    """Each number back to its place, axis by axis, between zeros."""
    constant = all(t is None or t.value is not None for t in node.inputs[1:])
    axes = node.x.axes(node.numbers(3, "axes") or range(_count(node.given(1))))
    for at, axis in enumerate(axes):
        size = node.x.shape[axis] if node.x.shape else None
        if constant and isinstance(size, int):
            bounds = [node.numbers(i, "bounds") for i in (1, 2, 4)]
            begin, end, step = (1 if b is None else b[at] for b in bounds)
            past = None if step < 0 and end < -size else end
            g = put_back(g, axis, np.arange(size)[begin:past:step], size)
        else:
            g = put_back_computed(g, axis, _places(node, at, axis), node.x.size(axis))
    return [g.known_like(node.x), *[None] * 4]


def _count(starts: Tensor) -> int:
    size = starts.sizes
    if size is None:
        raise NotDifferentiable("how many axes it slices is not known")
    return size[0]


def _places(node: Node, at: int, axis: int) -> Tensor:
    """The slice's indices along one axis, computed at run time."""
    graph = node.graph
    size = node.x.size(axis).squeeze(0)
    zero, one = graph.numbers(0, size.dtype), graph.numbers(1, size.dtype)
    numbers = graph.op("Range", zero, size, one)
    bounds = [node.optional(i) for i in (1, 2, 4)]
    begin, end, step = (
        None if b is None else b.slice([at], [at + 1], [0]).cast(size.dtype) for b in bounds
    )
    return numbers.op("Slice", begin, end, graph.ints([0]), step)


def pad(node: Node, g: Tensor) -> Gradients:
    """A crop; if the border repeats inner numbers, the repeats are added to them."""
    x, mode = node.x, node.attribute("mode", "constant")
    pads = node.given(1)
    axes = x.axes(node.numbers(3, "axes"))
    if mode == "constant":
        return [_cropped(g, pads, node.optional(3), axes).known_like(x)]
    numbers = node.numbers(1, "pads")
    assert numbers is not None
    style = {"edge": "edge", "reflect": "reflect", "wrap": "wrap"}[mode]
    for at, axis in enumerate(axes):
        widths = (numbers[at], numbers[at + len(axes)])
        if widths == (0, 0):
            continue
        size = fixed(x, axis)
        inside = np.arange(size)[max(0, -widths[0]) : size + min(0, widths[1])]
        places = np.pad(inside, [max(w, 0) for w in widths], mode=style)  # type: ignore[call-overload]
        g = add_back(g, axis, places, size)
    return [g.known_like(x), None, None, None]


def _cropped(g: Tensor, pads: Tensor, named: Tensor | None, axes: Sequence[int]) -> Tensor:
    """Without the pads; a negative pad had cropped, and is filled with zeros."""
    if pads.value is None:
        return g.op("Pad", -pads, None, named)
    if (pads.value < 0).any():
        return g.op("Pad", g.graph.ints(all_pads((-pads.value).tolist(), axes, g.rank)))
    befores, afters = np.split(pads.value, 2)
    ends = [-int(after) if after else FAR for after in afters]
    return g.slice([int(b) for b in befores], ends, axes)


def tile(node: Node, g: Tensor) -> Gradients:
    """The sum over copies: every axis becomes (copies, size)."""
    x, repeats = node.x, node.given(1)
    parts: list[Tensor] = []
    for axis in range(x.rank):
        parts += [repeats.slice([axis], [axis + 1], [0]), x.size(axis)]
    split_up = g.reshape(*parts) if parts else g
    return [split_up.sum(range(0, 2 * x.rank, 2)).known_like(x), None]


def triangle(node: Node, g: Tensor) -> Gradients:
    """The same half of g."""
    return [g.op("Trilu", node.optional(1), upper=node.attribute("upper", 1)), None]


def depth_to_space(node: Node, g: Tensor) -> Gradients:
    """SpaceToDepth, with channels in this node's order."""
    block = node.attribute("blocksize")
    packed = g.op("SpaceToDepth", blocksize=block)
    if node.attribute("mode", "DCR") == "DCR":
        return [packed.known_like(node.x)]
    channels = fixed(node.x, 1) // (block * block)
    split_up = packed.op("Reshape", node.graph.ints([0, block * block, channels, -1]))
    ordered = split_up.op("Transpose", perm=[0, 2, 1, 3])
    return [ordered.reshape_like(node.x)]


def space_to_depth(node: Node, g: Tensor) -> Gradients:
    """DepthToSpace."""
    return [g.op("DepthToSpace", blocksize=node.attribute("blocksize")).known_like(node.x)]


def reverse_sequence(node: Node, g: Tensor) -> Gradients:
    """Its own inverse."""
    batch, time = node.attribute("batch_axis", 1), node.attribute("time_axis", 0)
    return [g.op("ReverseSequence", node.given(1), batch_axis=batch, time_axis=time), None]


RULES: dict[str, GradientRule] = {
    "Concat": concat,
    "DepthToSpace": depth_to_space,
    "Expand": expand,
    "Flatten": reshaped,
    "Pad": pad,
    "Reshape": reshaped,
    "ReverseSequence": reverse_sequence,
    "Slice": slice_,
    "SpaceToDepth": space_to_depth,
    "Split": split,
    "Squeeze": reshaped,
    "Tile": tile,
    "Transpose": transpose,
    "Trilu": triangle,
    "Unsqueeze": reshaped,
}
