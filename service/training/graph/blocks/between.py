"""Operators between convolutions, written in the runtime's own layout (blocks/rewriting.py).

Each takes the rewriting and a node of the model, and returns the node's result in blocks, or None
if the node has to read ONNX's layout.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from msgspec import Struct, field
from msgspec.structs import replace
from onnx import helper

from service.training.graph.blocks.layout import block_op, repeat, sizes, to_blocks
from service.training.graph.builder import Builder
from service.training.graph.flow import duplicate, reads
from service.training.graph.kernel_windows import WindowShape, windows_of
from service.training.graph.node import Node, attributes_of
from service.training.graph.places import fixed
from service.training.graph.rules.resize import interpolation
from service.training.graph.tensor import Tensor, product

UNARY = (
    *("Abs", "Celu", "Clip", "Elu", "Erf", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Mish"),
    *("Neg", "Relu", "Selu", "Sigmoid", "Softplus", "Softsign", "Tanh"),
)
"""Operators of one tensor that work in any layout, and give a number for 0."""
BINARY = ("Add", "Max", "Min", "Mul", "Sub")


class Rewriting(Struct):
    """A model's graph, old, and new in another layout, which has the model's tensors, but no nodes
    at first. moved: tensors in that layout, by their names in the model. both: those that also
    exist in ONNX's layout.
    """

    model: onnx.ModelProto
    old: Builder
    new: Builder
    moved: dict[str, Tensor] = field(default_factory=dict)
    both: set[str] = field(default_factory=set)

    def plain(self, name: str) -> Tensor:
        """A tensor in ONNX's layout."""
        if name in self.moved and name not in self.both:
            self.rename(self.moved_back(name), name)
        return self.new.tensor(name)

    def moved_back(self, name: str) -> Tensor:
        """A moved tensor in ONNX's layout."""
        raise NotImplementedError

    def keep(self, node: onnx.NodeProto) -> None:
        """Write a node as it is."""
        for name in reads(node):
            self.plain(name)
        types = [self.old.tensor(name) if name else None for name in node.output]
        self.new.append(node, [(t.dtype, t.shape) if t else (0, None) for t in types])

    def rename(self, tensor: Tensor, name: str) -> None:
        """Give a tensor in ONNX's layout the name that it has in the model."""
        self.both.add(name)
        before = self.old.tensor(name)
        node = helper.make_node("Identity", [tensor.name], [name], name=name)
        self.new.append(node, [(before.dtype, before.shape)])

    def blocked(self, name: str) -> Tensor:
        """A tensor in blocks."""
        if name not in self.moved:
            self.moved[name] = to_blocks(self.plain(name), self.new.layout.block)
            self.both.add(name)
        return self.moved[name]


def without_nodes(model: onnx.ModelProto) -> Builder:
    """On a copy of a model's graph."""
    bare = duplicate(model)
    del bare.graph.node[:]
    return Builder(bare)


def unary(to: Rewriting, node: Node) -> Tensor | None:
    source = to.moved.get(node.x.name)
    if source is None:
        return None
    others = [to.new.tensor(name) if name else None for name in node.proto.input[1:]]
    return source.op(node.proto.op_type, *others, **attributes_of(node.proto))


def binary(to: Rewriting, node: Node) -> Tensor | None:
    """Of tensors of one shape, or of one and a number, or numbers for channels.

    Batches may have different names; a resize with computed sizes gives its own another.
    """
    if len(node.inputs) != 2:
        return None
    pair = (node.given(0), node.given(1))
    if pair[0].ranked[1:] == pair[1].ranked[1:]:
        left, right = (to.blocked(tensor.name) for tensor in pair)
        return left.op(node.proto.op_type, right)
    whole, small = pair if pair[0].name in to.moved else pair[::-1]
    beside = _beside(to, small, whole)
    if beside is None:
        return None
    moved = to.moved[whole.name]
    left, right = (moved, beside) if whole is pair[0] else (beside, moved)
    return left.op(node.proto.op_type, right)


def quotient(to: Rewriting, node: Node) -> Tensor | None:
    """By a number: channels that fill the last block have 0, which would divide 0."""
    below = node.given(1)
    is_number = below.sizes is not None and product(below.sizes) == 1
    return binary(to, node) if is_number and below.name not in to.moved else None


def _beside(to: Rewriting, small: Tensor, whole: Tensor) -> Tensor | None:
    """A tensor that is broadcast to another: a number, or one for each channel of each sample."""
    if small.sizes is not None and product(small.sizes) == 1:
        return to.new.tensor(small.name) if small.name not in to.moved else None
    if small.ranked != (*whole.ranked[:2], *[1] * (whole.rank - 2)):
        return None
    block, (batch, channels, rows, columns) = to.new.layout.block, sizes(to.moved[whole.name])
    gate = to.moved.get(small.name) or _padded(to.plain(small.name), channels)
    blocks = gate.reshape(-1, 1, block)
    spread = blocks.op("Expand", to.new.ints([1, rows * columns, 1]))
    return spread.reshape(batch, channels, rows, columns)


def _padded(gate: Tensor, channels: int) -> Tensor:
    more = channels - fixed(gate, 1)
    zeros = [0] * gate.rank
    return gate.op("Pad", gate.graph.ints([*zeros, 0, more, *zeros[2:]])) if more else gate


def means(to: Rewriting, node: Node) -> Tensor | None:
    """Over all places; few numbers, which leave the layout."""
    x, y = node.x, node.y
    if node.proto.op_type == "ReduceMean":
        axes = node.numbers(1, "axes")
        if axes is None or x.rank < 3 or sorted(x.axes(axes)) != list(range(2, x.rank)):
            return None
    source, channels = to.moved[x.name], fixed(x, 1)
    batch, wide, *_ = sizes(source)
    mean = block_op(to.new, "GlobalAveragePool", (batch, wide, 1, 1), source)
    flat = mean.reshape(-1, wide)
    flat = flat if channels == wide else flat.slice([0], [channels], [1])
    to.rename(flat.reshape(-1, *y.ranked[1:]).known(*y.ranked), node.proto.output[0])
    return mean


def pool(to: Rewriting, node: Node) -> Tensor | None:
    kernel = tuple(node.attribute("kernel_shape"))
    windows = _whole(windows_of(node, kernel, node.x, node.y), node)
    if len(kernel) > 2 or {*windows.dilations} != {1}:
        return None
    if node.proto.op_type == "AveragePool" and not windows.tile(node.x.whole_from(2)):
        return None
    if any(stride > k for stride, k in zip(windows.strides, kernel, strict=True)):
        return None
    source, places = to.moved[node.x.name], node.y.whole_from(2)
    batch, channels, *_ = sizes(source)
    shape = (batch, channels, *([1, *places] if len(places) == 1 else places))
    attributes: dict[str, Any] = two_axes(windows).attributes
    return block_op(to.new, node.proto.op_type, shape, source, **attributes)


def _whole(windows: WindowShape, node: Node) -> WindowShape:
    """With as many pads behind as the last windows reach over the end, as ceil_mode lets them."""
    afters = []
    for i, (size, count) in enumerate(zip(node.x.whole_from(2), node.y.whole_from(2), strict=True)):
        end = (count - 1) * windows.strides[i] - windows.befores[i] + windows.kernel[i]
        afters.append(max(windows.afters[i], end - size))
    return replace(windows, pads=(*windows.befores, *afters))


def concat(to: Rewriting, node: Node) -> Tensor | None:
    """Of channels, where whole blocks stand side by side."""
    parts = [node.given(index) for index in range(len(node.inputs))]
    if node.x.axis(node.attribute("axis")) != 1:
        return None
    if any(fixed(part, 1) % to.new.layout.block for part in parts[:-1]):
        return None
    return to.new.op("Concat", *(to.blocked(tensor.name) for tensor in parts), axis=1)


def resize(to: Rewriting, node: Node) -> Tensor | None:
    """To multiples, by repetition."""
    x, y = node.x, node.y
    if node.attribute("mode", "nearest") != "nearest" or x.rank not in (3, 4):
        return None
    pairs = list(zip(x.whole_from(2), y.whole_from(2), strict=True))
    if fixed(x, 1) != fixed(y, 1) or any(after % before for before, after in pairs):
        return None
    times = [after // before for before, after in pairs]
    for (before, after), time in zip(pairs, times, strict=True):
        matrix = interpolation(node, before, after, after / before)
        if not (matrix == np.repeat(np.eye(before), time, 0)).all():
            return None
    return repeat(to.moved[x.name], times if len(times) == 2 else [1, *times])


def two_axes(windows: WindowShape) -> WindowShape:
    """Of rows and columns; those of a single axis have one row."""
    if len(windows.kernel) == 2:
        return windows
    one, pads = (1,), (0, *windows.befores, 0, *windows.afters)
    return WindowShape(one + windows.kernel, pads, one + windows.strides, one + windows.dilations)


ANYWHERE: dict[str, Callable[[Rewriting, Node], Tensor | None]] = {
    **dict.fromkeys(UNARY, unary),
    **dict.fromkeys(BINARY, binary),
    "AveragePool": pool,
    "Concat": concat,
    "Div": quotient,
    "GlobalAveragePool": means,
    "MaxPool": pool,
    "ReduceMean": means,
    "Resize": resize,
}
