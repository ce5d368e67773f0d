"""Computes what a graph computes from numbers alone: pads, shapes, indices of an exporter's making.

The passes read such numbers from initializers. PyTorch's TorchScript exporter writes the pads of a
reflection as nine nodes.
"""

from __future__ import annotations

import numpy as np
import onnx

from service.training.forward import trial
from service.training.forward.graph import FLOAT, Graph, reads, subgraphs
from service.training.forward.refusals import is_random

MAX_BYTES = 1 << 16
"""Larger results stay computed: they are tables, not numbers."""


def fold(graph: Graph) -> None:
    """Replace nodes that depend on constants alone by their results.

    Constants are former Constant nodes and initializers that are not float32: these may be weights.
    """
    known = graph.constants | {
        name for name, tensor in graph.initializers.items() if tensor.data_type != FLOAT
    }
    foldable: list[onnx.NodeProto] = []
    for node in graph.proto.node:
        plain = not is_random(node) and not any(subgraphs(node))
        if plain and node.input and all(name in known for name in reads(node)):
            foldable.append(node)
            known.update(filter(None, node.output))
    if foldable:
        _replace(graph, foldable, _results(graph, foldable))


def _results(graph: Graph, nodes: list[onnx.NodeProto]) -> dict[str, trial.Array]:
    """Of those tensors that others read, where they are small."""
    inner = {node.name for node in nodes}
    made = [name for node in nodes for name in node.output if name]
    wanted = [
        name
        for name in made
        if name not in graph.outputs
        and any(reader.name not in inner for reader in graph.consumers(name))
    ]
    if not wanted:
        return {}
    read = {name for node in nodes for name in reads(node)}
    part = onnx.helper.make_graph(
        nodes,
        "numbers",
        [],
        [onnx.helper.make_empty_tensor_value_info(name) for name in wanted],
        [tensor for name, tensor in graph.initializers.items() if name in read],
    )
    model = onnx.helper.make_model(
        part, opset_imports=graph.model.opset_import, ir_version=graph.model.ir_version
    )
    (found,) = trial.run_named(model, [{}])
    tensors = {name: value for name, value in found.items() if isinstance(value, np.ndarray)}
    return {name: value for name, value in tensors.items() if value.nbytes <= MAX_BYTES}


def _replace(graph: Graph, nodes: list[onnx.NodeProto], results: dict[str, trial.Array]) -> None:
    for name, value in results.items():
        graph.proto.initializer.append(onnx.numpy_helper.from_array(value, name))
        graph.constants.add(name)
    needed: set[str] = set(graph.outputs)
    gone: dict[str, list[onnx.NodeProto]] = {}
    inner = {node.name for node in nodes}
    for node in reversed(graph.proto.node):
        if node.name in inner and not (needed - results.keys()).intersection(node.output):
            gone[node.name] = []
        else:
            _keep_other_outputs(node, results)
            needed.update(reads(node))
    graph.replace(gone)


def _keep_other_outputs(node: onnx.NodeProto, results: dict[str, trial.Array]) -> None:
    """A node that stays for one of its outputs must not write those that are initializers now."""
    for at, name in enumerate(node.output):
        if name in results:
            node.output[at] = f"{name}/computed"
