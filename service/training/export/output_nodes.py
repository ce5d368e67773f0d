"""Replaces the output of an exported model by nodes that recompute it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import onnx

from service.training.engine import Array
from service.training.graph.flow import refill
from service.training.graph.passes.simplify import prune

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
    graph.initializer.extend(onnx.numpy_helper.from_array(v, n) for n, v in constants.items())
    refill(graph.node, [*before, *nodes(output), *after])
    prune(graph, [value.name for value in graph.output])
    del graph.value_info[:]
    onnx.save_model(model, path)
