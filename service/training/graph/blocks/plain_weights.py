"""Convolutions as matrix products of the weights as they are, which outnumber what they meet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from msgspec.structs import asdict

from service.training.graph.blocks.between import Rewriting, two_axes
from service.training.graph.blocks.choices import BLOCKS, COLUMNS, PLAIN, Convolution
from service.training.graph.blocks.layout import BlockLayout
from service.training.graph.kernel_windows import WindowShape, windows_of
from service.training.graph.node import Node
from service.training.graph.places import fixed
from service.training.graph.tensor import Array, Tensor, product

Affine: TypeAlias = tuple[Tensor | None, Tensor | None]
"""Factor and summand of each channel."""
HEAVY = 4
"""Times as many weights as numbers of a run's input and output: to put them in blocks, and their
gradients back, takes longer than to move the others."""
UNSURE = 4
"""Factor to either side of that, within which it is a guess."""


def form_of(to: Rewriting, node: Node, weight: Tensor) -> str:
    """Of a convolution that fits blocks: columns if what the weights meet is to be moved instead of
    them.
    """
    windows = windows_of(node, weight.whole[2:], node.x, node.y)
    own = Convolution(
        ins=fixed(node.x, 1),
        outs=weight.whole[0],
        kernel=windows.kernel,
        strides=windows.strides,
        pads=windows.pads,
        dilations=windows.dilations,
        groups=int(node.attribute("group", 1)),
        places=tuple(node.x.whole_from(2)),
        of_input=node.x.name in [tensor.name for tensor in to.old.inputs],
    )
    layout: BlockLayout = to.new.layout
    met = HEAVY * layout.rows * sum(product(tensor.whole_from(1)) for tensor in (node.x, node.y))
    count = product(weight.whole) if own.groups == 1 else 0
    if count > UNSURE * met:
        return COLUMNS
    guess = COLUMNS if count > met else BLOCKS
    others = {PLAIN, COLUMNS, BLOCKS} if UNSURE * count > met else {PLAIN, BLOCKS}
    layout.choices.convolutions[own] += 1
    return layout.choices.take("form", asdict(own), guess, *sorted(others - {guess}))


def as_columns(
    to: Rewriting,
    node: Node,
    weight: Tensor,
    affine: Affine,
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
    counts = [1, *counts] if len(counts) == 1 else counts
    columns = x.swap(0, 1).reshape(ins, -1, product(x.whole_from(2)))
    if not windows.is_point:
        chosen = to.new.numbers(_selection(windows, x.whole_from(2), counts), x.dtype)
        seen = (columns @ chosen).reshape(ins, -1, product(kernel), product(counts))
        columns = seen.swap(1, 2)
    columns = columns.reshape(ins * product(kernel), -1)
    factor, shift = affine
    to.new.outnumbering.add(weight.name)
    rows, below = weight.reshape(outs, -1), None if shift is None else shift.unsqueeze(1)
    if factor is None:
        result = rows.op("Gemm", columns, below)
    else:
        scaled = rows.op("Gemm", columns) * factor.unsqueeze(1)
        result = scaled if below is None else scaled + below
    batch = node.x.ranked[0]
    places = node.y.whole_from(2)
    to.rename(result.reshape(outs, -1, *places).known(outs, batch, *places).swap(0, 1), last)


def _selection(windows: WindowShape, whole: Sequence[int], counts: Sequence[int]) -> Array:
    """The matrix of 0 and 1 that copies each number to where windows hold it, without pads.

    Returns (numbers, places of the kernel · windows). The gradient is a product, too, where parts
    of x would be padded and added up for each place.
    """
    held = []
    for i in range(2):
        places = np.arange(windows.kernel[i])[:, None] * windows.dilations[i] - windows.pads[i]
        seen = places + np.arange(counts[i]) * windows.strides[i]
        held.append(seen[:, :, None] == np.arange(whole[i]))
    both: Array = np.einsum("kcs,ldt->stklcd", *held)
    return both.reshape(product(whole), -1)


def as_rows(to: Rewriting, node: Node, weight: Tensor, bias: Tensor | None, last: str) -> bool:
    """A product of a row for each sample, if the convolution is of one place, with one group."""
    batch, _, *places = node.x.ranked
    if node.attribute("group", 1) > 1 or not places or {*weight.whole[2:], *places} != {1}:
        return False
    if any(node.attribute("pads") or ()):
        return False
    outs, ins, *_ = weight.whole
    rows = to.plain(node.x.name).reshape(-1, ins).known(batch, ins)
    result = rows.op("Gemm", weight.reshape(outs, ins), bias, transB=1)
    to.rename(result.reshape(-1, outs, *places).known(batch, outs, *places), last)
    return True
