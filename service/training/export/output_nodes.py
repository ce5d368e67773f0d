"""Replaces the output of an exported model by nodes that recompute it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import onnx

from service.training.engine import Array
from service.training.graph.flow import reads

BEFORE = "/before"
"""Suffix for the name of the former output."""


def replace_output(
    path: Path,
    output: str,
    nodes: Callable[[str], Sequence[onnx.NodeProto]],
    constants: Mapping[str, Array],
) -> None:
    """Make these nodes compute `output` of the model at `path`, from its tensors.

    nodes: called with the name of the output. They may read the former output, under its name with
    BEFORE appended. Other readers of the output read the new one; unused nodes are removed.
    """
    model = onnx.load_model(path, load_external_data=False)
    graph = model.graph
    place = next(at for at, node in enumerate(graph.node) if output in node.output)
    maker = graph.node[place]
    maker.output[:] = [name + BEFORE if name == output else name for name in maker.output]
    before, after = graph.node[: place + 1], graph.node[place + 1 :]
    kept = _read([*before, *nodes(output), *after], {value.name for value in graph.output})
    del graph.node[:]
    graph.node.extend(kept)
    read = {name for node in kept for name in reads(node)}
    added = [onnx.numpy_helper.from_array(v, name) for name, v in constants.items() if name in read]
    weights = [tensor for tensor in graph.initializer if tensor.name in read]
    del graph.initializer[:]
    graph.initializer.extend([*weights, *added])
    del graph.value_info[:]
    onnx.save_model(model, path)


def _read(nodes: Sequence[onnx.NodeProto], wanted: set[str]) -> list[onnx.NodeProto]:
    """The nodes that the wanted tensors depend on, in their order."""
    kept = []
    for node in reversed(nodes):
        if wanted & {*node.output}:
            kept.append(node)
            wanted = wanted.union(reads(node))
    return kept[::-1]
