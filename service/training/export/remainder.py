"""The other outputs of an uploaded model, besides the trained tensor.

Training keeps only the nodes that lead to one tensor. Apps may read others: probabilities after the
logits, a second head, an embedding. Each export gets them back from a fragment made at
registration, whose nodes read tensors of the trained part by name, and so compute with trained
weights.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import numpy as np
import onnx

from service.training.errors import GraphRefused
from service.training.export.join import attach
from service.training.forward import trial
from service.training.forward.graph import Graph
from service.training.graph.flow import duplicate, reads

TOLERANCE = 1e-4
"""Largest difference, as a share of 1 + the largest value."""
ROWS = (1, 3)


def make(
    whole: onnx.ModelProto, exported: onnx.ModelProto, *, output: str, trainable: Collection[str]
) -> tuple[onnx.ModelProto | None, tuple[str, ...]]:
    """The fragment, None if no output can be restored; and the names of lost outputs.

    whole: the inference model before the trained part was taken out. exported: that part, still
    with the weights of `whole`. An output is lost if it depends on inputs or weights that training
    has dropped or rewritten.
    """
    wanted = [value.name for value in whole.graph.output if value.name != output]
    kept = [name for name in wanted if _trace(whole, exported, [name], trainable) is not None]
    fragment = _fragment(whole, exported, kept, output=output, trainable=trainable)
    good = _equal(whole, attach(exported, fragment), kept) if kept else set[str]()
    if good != set(kept):
        kept = [name for name in kept if name in good]
        fragment = _fragment(whole, exported, kept, output=output, trainable=trainable)
    return fragment if kept else None, tuple(name for name in wanted if name not in kept)


def _fragment(
    whole: onnx.ModelProto,
    exported: onnx.ModelProto,
    kept: Sequence[str],
    *,
    output: str,
    trainable: Collection[str],
) -> onnx.ModelProto:
    missing = _trace(whole, exported, kept, trainable) or set()
    there = _tensors(exported.graph)
    nodes = [
        _without_writing(node, there)
        for node in whole.graph.node
        if not missing.isdisjoint(node.output)
    ]
    constants = [tensor for tensor in whole.graph.initializer if tensor.name in missing]
    values = {value.name: value for value in whole.graph.output}
    outputs = [_of_any_batch(v) for name, v in values.items() if name in kept or name == output]
    if output not in values:
        outputs += [value for value in exported.graph.output if value.name == output]
    graph = onnx.helper.make_graph(nodes, "remainder", [], outputs, constants)
    return onnx.helper.make_model(
        graph, opset_imports=whole.opset_import, ir_version=whole.ir_version
    )


def _trace(
    whole: onnx.ModelProto,
    exported: onnx.ModelProto,
    wanted: Iterable[str],
    trainable: Collection[str],
) -> set[str] | None:
    """The tensors missing in the exported model to compute these; None if impossible.

    A missing trainable weight was rewritten: a copy would keep its old value.
    """
    there = _tensors(exported.graph)
    makers = {name: node for node in whole.graph.node for name in node.output}
    constants = {tensor.name for tensor in whole.graph.initializer}
    missing: set[str] = set()
    pending = [name for name in wanted if name not in there]
    while pending:
        name = pending.pop()
        if name in missing:
            continue
        maker = makers.get(name)
        if maker is None and (name not in constants or name in trainable):
            return None
        missing.add(name)
        if maker is not None:
            missing.update(other for other in maker.output if other and other not in there)
            pending.extend(name for name in reads(maker) if name not in there)
    return missing


def _without_writing(node: onnx.NodeProto, there: Collection[str]) -> onnx.NodeProto:
    """A copy that omits outputs of the trained part: one output of a Split, for example."""
    copy = duplicate(node)
    copy.output[:] = [f"{name}/remainder" if name in there else name for name in node.output]
    return copy


def _tensors(graph: onnx.GraphProto) -> set[str]:
    results = {name for node in graph.node for name in node.output}
    sources = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    return results | sources


def _of_any_batch(value: onnx.ValueInfoProto) -> onnx.ValueInfoProto:
    """Without the size of axis 0, which training has made variable."""
    copy = duplicate(value)
    shape = copy.type.tensor_type.shape
    if shape.dim and shape.dim[0].HasField("dim_value"):
        shape.dim[0].dim_param = "batch"
    return copy


def _equal(whole: onnx.ModelProto, joined: onnx.ModelProto, kept: Sequence[str]) -> set[str]:
    """The outputs that both compute equally, from one row and from several."""
    graph = Graph(whole)
    fed = {value.name for value in joined.graph.input}
    sizes = _sizes(whole)
    good = set(kept)
    for rows in sizes or ROWS:
        feeds = trial.draw(graph, rows, seed=rows)
        try:
            (expected,) = trial.run_named(whole, [feeds])
            (results,) = trial.run_named(joined, [{n: v for n, v in feeds.items() if n in fed}])
        except GraphRefused:
            return set()  # such an output is lost, but no reason to refuse the model
        good = {name for name in good if _close(expected[name], results[name])}
    return good


def _sizes(whole: onnx.ModelProto) -> tuple[int, ...]:
    """The number of rows that the model takes, if it is fixed."""
    fixed = {tensor.name for tensor in whole.graph.initializer}
    first = next(value for value in whole.graph.input if value.name not in fixed)
    dims = first.type.tensor_type.shape.dim
    return (dims[0].dim_value,) if dims and dims[0].HasField("dim_value") else ()


def _close(expected: trial.Array, actual: trial.Array) -> bool:
    if not (isinstance(expected, np.ndarray) and isinstance(actual, np.ndarray)):
        return False  # sequences and maps have no tensor to compare
    if expected.shape != actual.shape or expected.dtype != actual.dtype:
        return False
    if expected.dtype.kind != "f":
        return bool(np.array_equal(expected, actual))
    limit = TOLERANCE * (1.0 + float(np.nanmax(np.abs(expected), initial=0.0)))
    return bool(np.allclose(expected, actual, rtol=0.0, atol=limit, equal_nan=True))
