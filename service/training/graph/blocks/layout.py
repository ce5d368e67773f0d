"""Convolutions of ONNX Runtime's own layout, in which a block of channels is the innermost axis.

A tensor (batch, channels, rows, columns) is in memory as (batch, channels / block, rows, columns,
block), with its channels padded to whole blocks; its type in the graph keeps the four axes. The
runtime's kernels for this layout are some 1.5 times as fast as those of Conv, up to ten times for
depthwise convolutions, but it uses them only for weights that never change. Elementwise operators
work in any layout. The operators are of the domain com.microsoft.nchwc:
onnxruntime/core/graph/contrib_ops/nchwc_schema_defs.cc.

While a graph is differentiated, a convolution reads plain weights; `lower` then packs them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from msgspec import Struct, field
from onnx import helper

from service.training.graph.blocks.choices import PADS, ZEROS, Choices
from service.training.graph.builder import Builder
from service.training.graph.kernel_windows import WindowShape
from service.training.graph.node import Node, attributes_of
from service.training.graph.places import fixed, joined
from service.training.graph.tensor import Dim, GraphBuilder, Shape, Tensor, product

DOMAIN, OWN = "com.microsoft.nchwc", "hone.blocks"
"""Of the runtime's operators, and of those that `lower` writes with them."""
REORDERED = 4
"""The runtime reorders channels by as many at once."""
AT_ONCE = 3
"""Places of a row that the runtime's convolutions compute at once. Each that reads pads takes the
time of three: rows of six take two thirds of their time with zeros instead."""
PAD_WORK = 24
"""Multiplications for each number of a row that zeros beside it must save a part of."""


class BlockLayout(Struct, frozen=True):
    """block: channels of a block on the graph's processor. rows: of a run, at most. choices: what
    the graph asks.
    """

    block: int
    rows: int
    choices: Choices = field(default_factory=Choices)


def block_windows(node: Node) -> WindowShape:
    """Of a node of this layout."""
    names = ("kernel_shape", "pads", "strides", "dilations")
    return WindowShape(*(tuple(node.attribute(name)) for name in names))


def padded(channels: int, block: int) -> int:
    return -(-channels // block) * block


def sizes(x: Tensor) -> tuple[Dim, int, int, int]:
    """Of (batch, channels, rows, columns). Raises NotDifferentiable."""
    return x.ranked[0], fixed(x, 1), fixed(x, 2), fixed(x, 3)


def block_op(
    graph: GraphBuilder,
    op_type: str,
    shape: Shape,
    *inputs: Tensor | None,
    domain: str = DOMAIN,
    **attributes: Any,
) -> Tensor:
    """The output of a node of the runtime's own layout."""
    names = [tensor.name if tensor is not None else "" for tensor in inputs]
    while not names[-1]:
        names.pop()
    node = helper.make_node(op_type, names, [""], domain=domain, **attributes)
    assert inputs[0] is not None
    return graph.foreign(node, inputs[0], shape)


def to_blocks(x: Tensor, block: int) -> Tensor:
    """(batch, channels, rows, columns), or without rows, in blocks."""
    graph = x.graph
    if x.rank == 3:
        x = x.reshape(x.ranked[0], fixed(x, 1), 1, fixed(x, 2))
    batch, channels, *places = sizes(x)
    if places == [1, 1] and channels % block == 0:
        return x
    if channels % REORDERED:
        x = x.op("Pad", graph.ints([0, 0, 0, 0, 0, -channels % REORDERED, 0, 0]))
    shape = (batch, padded(channels, block), *places)
    return block_op(graph, "ReorderInput", shape, x, channels_last=0)


def from_blocks(x: Tensor, channels: int, *, last: bool = False) -> Tensor:
    """(batch, channels, rows, columns), or with the channels last."""
    batch, _, *places = sizes(x)
    even = padded(channels, REORDERED)
    shape: Shape = (batch, *places, even) if last else (batch, even, *places)
    plain = block_op(x.graph, "ReorderOutput", shape, x, channels=even, channels_last=int(last))
    return plain if even == channels else plain.slice([0], [channels], [3 if last else 1])


def convolve(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    windows: WindowShape,
    shape: Shape,
    *,
    groups: int = 1,
    activation: str = "",
) -> Tensor:
    """A convolution in blocks. weight: (outs, ins / groups, rows, columns), bias: (outs,).

    x: in blocks, or as ONNX has it if it has fewer channels than a block and there is one group.
    """
    attributes: dict[str, Any] = {**windows.attributes, "group": groups}
    if activation:
        attributes["activation"] = activation
    return block_op(x.graph, "Conv", shape, x, weight, bias, domain=OWN, **attributes)


def convolve_back(
    g: Tensor,
    weight: Tensor,
    windows: WindowShape,
    shape: Shape,
    *,
    groups: int,
    places: Sequence[Sequence[int]] | None = None,
) -> Tensor:
    """A convolution with the turned weights of another: its gradient by the input, of stride 1.

    places: of the kernel, by axis, those that are taken; all if None.
    """
    attributes: dict[str, Any] = {**windows.attributes, "group": groups}
    if places is not None:
        attributes |= {"rows": list(places[0]), "columns": list(places[1])}
    return block_op(g.graph, "ConvBack", shape, g, weight, domain=OWN, **attributes)


def side_by_side(parts: Sequence[Sequence[Tensor]], whole: Sequence[int]) -> Tensor:
    """Every second, third … number of rows and columns, together; the end is cut off.

    parts: (blocks, rows, columns, block), by their first row and column.
    """
    block, (rows, columns) = parts[0][0].graph.layout.block, parts[0][0].sizes_of([1, 2])
    lines = []
    for line in parts:
        blocks = [part.reshape(-1, rows, 1, columns, 1, block) for part in line]
        lines.append(joined(blocks, 4))
    tall, wide = rows * len(parts), columns * len(parts[0])
    result = joined(lines, 2).reshape(-1, tall, wide, block)
    if (tall, wide) == tuple(whole):
        return result
    return result.slice([0, 0], list(whole), [1, 2])


def repeat(x: Tensor, times: Sequence[int]) -> Tensor:
    """Each number as a rectangle of equal ones."""
    batch, channels, rows, columns = sizes(x)
    flat = x.reshape(-1, rows, columns, x.graph.layout.block)
    tall, wide = rows * times[0], columns * times[1]
    whole = side_by_side([[flat] * times[1]] * times[0], (tall, wide))
    return whole.reshape(batch, channels, tall, wide)


def lower(graph: Builder) -> None:
    """Write the runtime's convolutions instead of those of `OWN`, with their weights in blocks."""
    nodes, graph.nodes = graph.nodes, []
    for node in nodes:
        if node.domain != OWN:
            graph.nodes.append(node)
            continue
        inputs = [graph.tensor(name) for name in node.input]
        options = attributes_of(node)
        weight, groups = _merged(inputs[1], options.pop("group"), graph.layout.block)
        lowered = _lowered(node, inputs[0], weight, inputs[2:], groups=groups, attributes=options)
        lowered.output[:] = node.output
        graph.nodes.append(lowered)


def _lowered(
    node: onnx.NodeProto,
    x: Tensor,
    weight: Tensor,
    bias: Sequence[Tensor],
    *,
    groups: int,
    attributes: dict[str, Any],
) -> onnx.NodeProto:
    block = x.graph.layout.block
    outs, ins, *kernel = weight.whole
    is_depthwise = ins == 1 and groups == outs
    turns = node.op_type == "ConvBack"
    whole = not is_depthwise and (turns or groups > 1 or fixed(x, 1) != ins or ins >= block)
    packed = _packed(weight, block, whole=whole)
    if turns:
        axes = [
            attributes.pop(name, range(kernel[i])) for i, name in enumerate(("rows", "columns"))
        ]
        places = [row * kernel[1] + column for row in axes[0] for column in axes[1]]
        packed = _turned(packed, product(kernel), places, groups, is_depthwise=is_depthwise)
        packed = packed.reshape(*packed.whole[:2], *attributes["kernel_shape"])
    wide = packed.whole[0]
    if not is_depthwise and whole:
        x, attributes["pads"] = _with_zeros(x, attributes, outs=wide, groups=groups)
    names = [x.name, packed.name, *(_padded_bias(term, wide).name for term in bias)]
    width = wide if is_depthwise else groups
    return helper.make_node(
        "Conv", names, [""], name=node.name, domain=DOMAIN, group=width, **attributes
    )


def _with_zeros(
    x: Tensor, attributes: Mapping[str, Any], *, outs: int, groups: int
) -> tuple[Tensor, list[int]]:
    """What a convolution reads, with zeros beside it where that pays, and the pads that stay."""
    top, left, bottom, right = pads = attributes["pads"]
    batch, channels, rows, columns = sizes(x)
    wide = columns + left + right
    count = wide - (attributes["kernel_shape"][1] - 1) * attributes["dilations"][1]
    work = outs * product(attributes["kernel_shape"])
    if not left * right or {*attributes["strides"]} != {1}:
        return x, pads
    guess = PADS if count % AT_ONCE or work < PAD_WORK * count else ZEROS
    facts = {"read": (channels, rows, columns), "outs": outs, "groups": groups}
    facts |= {name: attributes[name] for name in ("kernel_shape", "pads", "dilations")}
    other = ZEROS if guess == PADS else PADS
    if x.graph.layout.choices.take("beside", facts, guess, other) == PADS:
        return x, pads
    lines = x.reshape(-1, columns, x.graph.layout.block)
    lines = lines.op("Pad", x.graph.ints([0, left, 0, 0, right, 0]))
    return lines.reshape(batch, channels, rows, wide), [top, 0, bottom, 0]


def _padded_bias(bias: Tensor, wide: int) -> Tensor:
    (size,) = bias.whole
    return bias if size == wide else bias.op("Pad", bias.graph.ints([0, wide - size]))


def _merged(plain: Tensor, groups: int, block: int) -> tuple[Tensor, int]:
    """Weights of groups that are narrower than a block, as those of whole blocks, with zeros."""
    outs, ins, *kernel = plain.whole
    if groups == 1 or not is_merged(plain, groups, block):
        return plain, groups
    times, wide, graph = block // ins, padded(outs, block), plain.graph
    if wide > outs:
        plain = plain.op("Pad", graph.ints([0] * plain.rank + [wide - outs, 0, 0, 0]))
    own = np.arange(block)[:, None] // ins == np.arange(block) // ins
    tiled = plain.op("Concat", *[plain] * (times - 1), axis=1)
    mask = np.tile(own, (wide // block, 1)).reshape(wide, block, *[1] * len(kernel))
    return tiled * graph.numbers(mask, plain.dtype), wide // block


def is_merged(plain: Tensor, groups: int, block: int) -> bool:
    """Whether groups are narrower than a block, and not of a single channel."""
    outs, ins, *_ = plain.whole
    return 1 < groups < outs and ins < block


def _packed(plain: Tensor, block: int, *, whole: bool) -> Tensor:
    """Weights in blocks, their channels padded.

    whole: both channels in blocks, else only outs, as depthwise convolutions and those of fewer
    inputs than a block have them.
    """
    graph = plain.graph
    outs, ins, *kernel = plain.whole
    places = product(kernel)
    wide, deep = padded(outs, block), padded(ins, block) if whole else ins
    more = [-outs % REORDERED, deep - ins]
    rows = plain.op("Pad", graph.ints([0] * plain.rank + [*more, 0, 0])) if any(more) else plain
    rows = rows.reshape(1, outs + more[0], deep * places, 1)
    blocks = block_op(graph, "ReorderInput", (1, wide, deep * places, 1), rows)
    if whole and places > 1:
        blocks = blocks.reshape(-1, block, places, block).swap(1, 2)
    return blocks.reshape(wide, deep, *kernel)


def _turned(
    packed: Tensor, count: int, places: Sequence[int], groups: int, *, is_depthwise: bool
) -> Tensor:
    """The weights with which a convolution of stride 1 has its own gradient by its input.

    count: places of the kernel. places: those that are taken.
    """
    graph, block = packed.graph, packed.graph.layout.block
    wide, deep, *_ = packed.whole
    back = np.array(places)[::-1]
    if is_depthwise:
        rows = packed.reshape(wide // block, count, block)
        rows = rows if count == 1 else rows.op("Gather", graph.constant(back), axis=1)
        return rows.reshape(wide, 1, len(places), 1)
    outs, ins = wide // groups // block, deep // block
    tiles = groups * outs * ins * count
    flipped = block_op(
        graph, "ReorderInput", (tiles, block, block, 1), packed.reshape(tiles, block, block, 1)
    )
    order = np.arange(tiles).reshape(groups, outs, ins, count).swapaxes(1, 2)[..., back]
    taken = flipped.op("Gather", graph.constant(order.reshape(-1)), axis=0)
    return taken.reshape(groups * deep, wide // groups, len(places), 1)
