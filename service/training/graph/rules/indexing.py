"""Operators that select by index: the gradient is added back at the selected positions."""

from __future__ import annotations

import numpy as np

from service.training.graph.node import GradientRule, Gradients, Node
from service.training.graph.places import add_back, fixed
from service.training.graph.tensor import INT64, NotDifferentiable, Tensor

FEW_ROWS = 64
"""Up to this many rows a product with a 0/1 matrix is faster than adding row by row."""


def gather(node: Node, g: Tensor) -> Gradients:
    """Slices along an axis: a 0/1 matrix for constant indices, else adding rows."""
    x, places = node.x, node.given(1)
    axis = x.axis(node.attribute("axis", 0))
    size = x.shape[axis] if x.shape is not None else None
    if places.value is not None and places.value.ndim <= 1 and isinstance(size, int):
        chosen = np.where(places.value < 0, places.value + size, places.value).reshape(-1)
        kept = g if places.value.ndim else g.unsqueeze(axis)
        return [add_back(kept, axis, chosen, size).known_like(x), None]
    return [_added_rows(g, x, places, axis).known_like(x), None]


def _added_rows(g: Tensor, x: Tensor, places: Tensor, axis: int) -> Tensor:
    """Moves the axis to the front and back, so that slices become rows."""
    graph, rank = g.graph, places.rank
    front = [*range(axis, axis + rank)]
    rest = [a for a in range(g.rank) if a not in front]
    rows = g.transpose(*front, *rest)
    others = [a for a in range(x.rank) if a != axis]
    moved = [x.size(axis), *(x.size(a) for a in others)]
    size = x.shape[axis] if x.shape is not None else None
    flat = places.op("Reshape", graph.ints([-1, 1]))
    width = graph.op("ReduceProd", graph.vector(1, *moved[1:]), keepdims=1)
    matrix = rows.reshape(flat.size(0), width)
    if isinstance(size, int) and size <= FEW_ROWS:
        wrapped = (flat < 0).where(flat + size, flat)
        chosen = wrapped.equal(graph.numbers(np.arange(size), places.dtype)).cast_like(g)
        summed = chosen.op("Gemm", matrix, transA=1)
    else:
        summed = _summed_rows(matrix, flat.cast(INT64), moved[0], width)
    is_matrix = x.rank == 2 and axis == 0
    slices = summed if is_matrix else summed.reshape(*moved)
    return slices.transpose(*range(1, axis + 1), 0, *range(axis + 1, x.rank))


def _summed_rows(rows: Tensor, places: Tensor, count: Tensor, width: Tensor) -> Tensor:
    """Rows summed by place, (count, width). places: (n, 1).

    ScatterND would do it in one step, but ONNX Runtime's loses sums when its threads collide.
    """
    graph = rows.graph
    zeros = graph.numbers(0, rows.dtype).op("Expand", graph.vector(count, width))
    index = places.op("Expand", rows.dims())
    return zeros.op("ScatterElements", index, rows, axis=0, reduction="add")


def gather_elements(node: Node, g: Tensor) -> Gradients:
    """Each number is added to its origin."""
    axis = node.attribute("axis", 0)
    back = node.x.zeros().op("ScatterElements", node.given(1), g, axis=axis, reduction="add")
    return [back.known_like(node.x), None]


def gather_nd(node: Node, g: Tensor) -> Gradients:
    """Slices by index vectors; shared leading axes become part of the index."""
    x, index = node.x, node.given(1)
    for axis in reversed(range(node.attribute("batch_dims", 0))):
        index = _with_own_place(index, axis)
    graph = g.graph
    depth = fixed(index, index.rank - 1)
    heads, tails = (
        [x.dims(0, depth), x.dims(depth)] if depth < x.rank else [x.dims(), graph.ints([])]
    )
    wrapped = (index < 0).where(index + heads, index)
    # A row's number: each coordinate times the sizes after it.
    after = [x.dims(i + 1, depth) if i + 1 < depth else graph.ints([]) for i in range(depth)]
    steps = [graph.op("ReduceProd", graph.vector(1, sizes), keepdims=1) for sizes in after]
    places = (wrapped * graph.vector(*steps)).sum([-1]).op("Reshape", graph.ints([-1, 1]))
    count = graph.op("ReduceProd", heads, keepdims=1)
    width = graph.op("ReduceProd", graph.vector(1, tails), keepdims=1)
    summed = _summed_rows(g.reshape(places.size(0), width), places, count, width)
    return [summed.reshape_like(x), None]


def _with_own_place(index: Tensor, axis: int) -> Tensor:
    """The index with one more number in front: its position along a shared axis."""
    graph, numbers = index.graph, index.graph.numbers
    count = index.size(axis).squeeze(0)
    own = graph.op("Range", numbers(0, INT64), count, numbers(1, INT64))
    own = own.unsqueeze(*range(1, index.rank - axis))
    shape = graph.vector(index.dims(0, index.rank - 1), 1)
    return graph.op("Concat", own.op("Expand", shape), index, axis=-1)


def scatter_elements(node: Node, g: Tensor) -> Gradients:
    """What was overwritten gets nothing, what was written gets what is there."""
    index, axis = node.given(1), node.attribute("axis", 0)
    updates = g.op("GatherElements", index, axis=axis).known_like(node.given(2))
    if _reduction(node) == "add":
        return [g, None, updates]
    zeros = node.given(2).zeros()
    return [g.op("ScatterElements", index, zeros, axis=axis), None, updates]


def scatter_nd(node: Node, g: Tensor) -> Gradients:
    """What was overwritten gets nothing, what was written gets what is there."""
    index, updates = node.given(1), node.given(2)
    written = g.op("GatherND", index).known_like(updates)
    if _reduction(node) == "add":
        return [g, None, written]
    return [g.op("ScatterND", index, updates.zeros()), None, written]


def _reduction(node: Node) -> str:
    reduction = str(node.attribute("reduction", "none"))
    if reduction not in ("none", "add"):
        raise NotDifferentiable(f"its reduction {reduction} has no gradient here")
    return reduction


def top_k(node: Node, g: Tensor) -> Gradients:
    """Back to the positions that the operator returns."""
    axis = node.attribute("axis", -1)
    back = node.x.zeros().op("ScatterElements", node.output(1), g, axis=axis)
    return [back.known_like(node.x), None]


def compress(node: Node, g: Tensor) -> Gradients:
    """Slices, or single numbers, selected by a row of booleans."""
    x, axis = node.x, node.attribute("axis")
    places = node.given(1).op("NonZero").squeeze(0)
    if axis is not None:
        axis = x.axis(axis)
        rows = x.swap(0, axis).zeros()
        back = rows.op("ScatterND", places.unsqueeze(1), g.swap(0, axis))
        return [back.known(*rows.shape or ()).swap(0, axis).known_like(x), None]
    flat = g.graph.ints([-1])
    zeros = x.zeros().op("Reshape", flat)
    return [zeros.op("ScatterElements", places, g).reshape_like(x), None]


RULES: dict[str, GradientRule] = {
    "Compress": compress,
    "Gather": gather,
    "GatherElements": gather_elements,
    "GatherND": gather_nd,
    "ScatterElements": scatter_elements,
    "ScatterND": scatter_nd,
    "TopK": top_k,
}
