"""Convolutions as matrix products of the weights as they are, which outnumber what they meet."""

from __future__ import annotations

from service.training.graph.blocks.between import Rewriting, two_axes
from service.training.graph.blocks.parts import bordered, shifted
from service.training.graph.node import Node
from service.training.graph.places import fixed
from service.training.graph.tensor import Tensor, product
from service.training.graph.windows import windows_of

HEAVY = 4
"""Times as many weights as numbers of a run's input and output: to put them in blocks, and their
gradients back, takes longer than to move the others."""


def is_heavy(node: Node, weight: Tensor, *, rows: int) -> bool:
    """Whether to move what the weights of a convolution meet instead of them. rows: of a run."""
    met = sum(product(each.whole_from(1)) for each in (node.x, node.y))
    is_one = bool(node.attribute("group", 1) == 1)
    return is_one and product(weight.whole) > HEAVY * rows * met


def as_columns(
    to: Rewriting,
    node: Node,
    weight: Tensor,
    affine: tuple[Tensor | None, Tensor | None],
    last: str,
) -> None:
    """A product of the weights with columns of all that they meet, channels before samples.

    affine: factor and summand of each channel. last: the result's name.
    """
    windows = two_axes(windows_of(node, weight.whole[2:], node.x, node.y))
    outs, ins, *kernel = weight.whole
    x, counts = to.plain(node.x.name), node.y.whole_from(2)
    if x.rank == 3:
        x = x.reshape(x.ranked[0], ins, 1, fixed(x, 2))
    wide = bordered(x.swap(0, 1), windows, first=2)
    parts = shifted(wide, windows, [1, *counts] if len(counts) == 1 else counts, first=2)
    columns = parts[0].reshape(ins, -1)
    if len(parts) > 1:
        each = [part.reshape(ins, 1, -1) for part in parts]
        columns = to.new.op("Concat", *each, axis=1).reshape(ins * product(kernel), -1)
    factor, shift = affine
    rows, below = weight.reshape(outs, -1), None if shift is None else shift.unsqueeze(1)
    if factor is None:
        result = rows.op("Gemm", columns, below)
    else:
        assert below is not None
        result = rows.op("Gemm", columns) * factor.unsqueeze(1) + below
    batch = node.x.ranked[0]
    to.rename(result.reshape(outs, -1, *counts).known(outs, batch, *counts).swap(0, 1), last)


def as_rows(to: Rewriting, node: Node, weight: Tensor, bias: Tensor | None, last: str) -> bool:
    """A product of a row for each sample, if the convolution is of one place, with one group."""
    batch, _, *places = node.x.ranked
    if node.attribute("group", 1) > 1 or not places or {*weight.whole[2:], *places} != {1}:
        return False
    if any(node.attribute("pads") or ()):
        return False
    outs, ins, *_ = weight.whole
    rows = to.plain(node.x.name).reshape(-1, ins)
    result = rows.op("Gemm", weight.reshape(outs, ins), bias, transB=1)
    to.rename(result.reshape(-1, outs, *places).known(batch, outs, *places), last)
    return True
