"""Split: its gradient needs a gradient of every output, so unread outputs call for Slice."""

from __future__ import annotations

from collections.abc import Sequence

import onnx

from service.training.conform.draft import Draft
from service.training.forward.build import Builder
from service.training.forward.graph import Graph, input_at, int_attribute, ints_attribute


def mend(draft: Draft) -> None:
    """Replace a Split whose outputs do not all lead to the loss by one Slice for each that does."""
    path_reads = {name for node in draft.path() for name in node.input}
    path_reads.update(draft.graph.outputs)
    wanting = [
        node
        for node in draft.path("Split")
        if not all(name and name in path_reads for name in node.output)
    ]
    replaced: dict[str, Sequence[onnx.NodeProto]] = {}
    for node in wanting:
        sizes = _sizes(draft.graph, node)
        if sizes is None:
            draft.refuse(node, "has an output that nothing reads, and sizes that are not fixed")
        else:
            replaced[node.name] = _slices(draft.graph, node, sizes)
    draft.note(
        [node for node in wanting if node.name in replaced],
        "Split with an output that leads nowhere became Slice",
    )
    draft.graph.replace(replaced)


def _sizes(graph: Graph, node: onnx.NodeProto) -> list[int] | None:
    given = graph.array(input_at(node, 1))
    if given is not None:
        return [int(size) for size in given]
    listed = ints_attribute(node, "split")
    dims = graph.dims(node.input[0])
    if listed is not None or dims is None:
        return listed
    size = dims[int_attribute(node, "axis", 0)]
    if size is None:
        return None
    chunk = -(-size // len(node.output))
    return [min(chunk, size - start) for start in range(0, size, chunk)]


def _slices(graph: Graph, node: onnx.NodeProto, sizes: Sequence[int]) -> list[onnx.NodeProto]:
    b = Builder(graph, node.name)
    axes = b.ints([int_attribute(node, "axis", 0)])
    start = 0
    for output, size in zip(node.output, sizes, strict=True):
        if output and (graph.consumers(output) or output in graph.outputs):
            b.op("Slice", node.input[0], b.ints([start]), b.ints([start + size]), axes)
            b.nodes[-1].output[0] = output
        start += size
    return b.nodes
