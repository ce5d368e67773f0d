"""Where training begins: the tensors below which nothing depends on a trainable parameter."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import onnx
from msgspec import Struct

from service.training.forward import trial
from service.training.forward.graph import FLOAT, Graph, is_default
from service.training.graph.flow import moving, needed_for, reads, refill

Shape = tuple[int, ...]


class CannotCut(Exception):
    """Why a frozen part exists but cannot be cut off; for people."""


class Layout(Struct, frozen=True):
    """How a tensor holds its rows: axis `axis` is `factor` times the batch.

    shape: for one sample, with 0 where the batch is.
    """

    axis: int
    factor: int
    shape: Shape


class Frontier(Struct):
    """The nodes after the cut, and the tensors that cross it.

    suffix: names of the nodes that depend on a trainable parameter, and of those that would not
    give one row per sample. edge: tensors that they read from before the cut, in graph order.
    measured: tensors before the cut of which the suffix needs only the shape.
    """

    suffix: set[str]
    edge: dict[str, Layout]
    measured: dict[str, Layout]


def find(graph: Graph, trainable: Iterable[str]) -> Frontier | None:
    """The frontier of a graph with named nodes; None if nothing is before it.

    A tensor that depends on no input, or that does not hold rows, is computed after the cut, with
    its inputs. So is an active Dropout right at the cut: it costs nothing there, and stays active.
    Raises GraphRefused if the graph does not run, and CannotCut if the part before the cut does not
    hold rows.
    """
    unfit: list[str] = []
    fed = moving(graph.proto.node, [value.name for value in graph.inputs])
    moved = moving(graph.proto.node, trainable)
    above = {node.name for node in graph.proto.node if not moved.isdisjoint(reads(node))}
    while True:
        edge, shapes_of = _edge(graph, above)
        lifted = [name for name in edge if name not in fed or _stays_above(graph, name, fed)]
        unfit += [name for name in lifted if name in fed and _is_shared(graph, name)]
        if not lifted:
            layouts = _layouts(graph, [*edge, *shapes_of])
            lifted = [name for name in edge if layouts.get(name) is None]
            unfit += lifted
            unknown = [name for name in shapes_of if layouts.get(name) is None]
            if unknown:
                raise _no_rows(unknown[0])
        if not lifted:
            break
        for name in lifted:
            node = graph.producer(name)
            if node is None:
                raise _no_rows(name)
            above.add(node.name)
    if all(graph.producer(name) is None for name in edge):
        if unfit:
            raise _no_rows(unfit[0])
        return None
    known = {name: layout for name, layout in layouts.items() if layout is not None}
    return Frontier(
        suffix=above,
        edge={name: known[name] for name in edge},
        measured={name: known[name] for name in shapes_of if name not in edge},
    )


def _no_rows(name: str) -> CannotCut:
    return CannotCut(f"{name}, below what trains, does not hold one row for each sample")


def below(graph: Graph, frontier: Frontier) -> list[onnx.NodeProto]:
    """The nodes that lead to the edge, in graph order."""
    nodes = [node for node in graph.proto.node if node.name not in frontier.suffix]
    return needed_for(nodes, frontier.edge)[0]


def _edge(graph: Graph, above: set[str]) -> tuple[list[str], list[str]]:
    """The tensors that the suffix reads from the prefix, and those it needs only the shape of."""
    nodes = [node for node in graph.proto.node if node.name in above]
    produced = {name for node in nodes for name in node.output} | set(graph.initializers)
    tensors: dict[str, None] = {}
    shapes: dict[str, None] = {}
    for node in nodes:
        for name in reads(node):
            if name not in produced:
                (shapes if is_default(node, "Shape") else tensors)[name] = None
    return list(tensors), [name for name in shapes if name not in tensors]


def _stays_above(graph: Graph, name: str, fed: set[str]) -> bool:
    """Is it the same for every sample, or free to recompute?"""
    dims, node = graph.dims(name), graph.producer(name)
    if node is None:
        return False
    if is_default(node, "Dropout") and trial.trains(node, graph.proto):
        return True
    if is_default(node, "ConstantOfShape", "Expand") and (
        node.op_type == "ConstantOfShape" or node.input[0] not in fed
    ):
        return True
    return dims is not None and None not in dims


def _is_shared(graph: Graph, name: str) -> bool:
    """Is it one float tensor for all samples of a batch?"""
    dims = graph.dims(name)
    return dims is not None and None not in dims and graph.elem_type(name) == FLOAT


def _layouts(graph: Graph, names: Sequence[str]) -> Mapping[str, Layout | None]:
    """How each tensor holds its rows, found by running two rows and three; None if it does not."""
    model = trial.inference_form(graph.model)
    inputs = {value.name for value in graph.inputs}
    inner = [name for name in names if name not in inputs]
    feeds = [trial.draw(graph, rows) for rows in (2, 3)]
    layouts: dict[str, Layout | None] = {}
    if inner:
        refill(model.graph.output, map(onnx.helper.make_empty_tensor_value_info, inner))
        two, three = trial.run_all(model, feeds)
        layouts = {
            name: _layout(a.shape, b.shape) if hasattr(a, "shape") and a.dtype != object else None
            for name, a, b in zip(inner, two, three, strict=True)
        }
    for name in inputs.intersection(names):
        layouts[name] = _layout(feeds[0][name].shape, feeds[1][name].shape)
    return {name: layouts[name] for name in names}


def _layout(two: Shape, three: Shape) -> Layout | None:
    if len(two) != len(three):
        return None
    pairs = list(zip(two, three, strict=True))
    moved = [axis for axis, (a, b) in enumerate(pairs) if a != b]
    if len(moved) != 1:
        return None
    axis = moved[0]
    factor = pairs[axis][1] - pairs[axis][0]
    if factor < 1 or pairs[axis] != (2 * factor, 3 * factor) or 0 in two:
        return None
    shape = tuple(0 if at == axis else size for at, size in enumerate(two))
    return Layout(axis, factor, shape)
