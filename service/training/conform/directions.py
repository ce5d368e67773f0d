"""LSTM and GRU that read backwards, or both ways, as ones that read forwards.

The engine's training kernels only read forwards, and it puts them in everywhere, even where no
gradient is needed.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx

from service.training.conform.draft import Draft
from service.training.forward.build import Builder
from service.training.forward.graph import Graph, attribute, input_at

_PER_DIRECTION = (1, 2, 3, 5, 6, 7)
"""Inputs whose axis 0 is the direction: weights, biases, initial states."""
_OWN_ATTRIBUTES = ("direction", "activations", "activation_alpha", "activation_beta")


def mend(draft: Draft) -> None:
    """One node for each direction, on reversed input where it reads backwards."""
    replaced: dict[str, Sequence[onnx.NodeProto]] = {}
    wanting = [n for n in draft.nodes("LSTM", "GRU") if _direction(n) != b"forward"]
    for node in wanting:
        dims = draft.graph.dims(node.input[0])
        if dims is None or dims[0] is None:
            draft.refuse(node, "reads a sequence backwards whose length is not fixed; export it so")
        else:
            replaced[node.name] = _forwards(draft.graph, node, dims[0])
    draft.note(
        [node for node in wanting if node.name in replaced],
        "a recurrent operator that reads backwards became one that reads forwards",
    )
    draft.graph.replace(replaced)


def _direction(node: onnx.NodeProto) -> object:
    return attribute(node, "direction", b"forward")


def _forwards(graph: Graph, node: onnx.NodeProto, length: int) -> list[onnx.NodeProto]:
    b = Builder(graph, node.name)
    both = _direction(node) == b"bidirectional"
    parts = [_part(b, node, length, index if both else None) for index in range(1 + both)]
    for position, output in enumerate(node.output):
        if not output:
            continue
        names = [part[position] for part in parts]
        if both:
            b.op("Concat", *names, axis=1 if position == 0 else 0)
        else:
            b.op("Identity", names[0])
        b.nodes[-1].output[0] = output
    return b.nodes


def _part(b: Builder, node: onnx.NodeProto, length: int, index: int | None) -> list[str]:
    """Outputs of one direction. index: which of two, None if the node has only the reverse one."""
    backwards = index != 0
    order = b.ints(range(length - 1, -1, -1)) if backwards else ""
    inputs = [input_at(node, position) for position in range(len(node.input))]
    if backwards:
        inputs[0] = b.op("Gather", inputs[0], order, axis=0)
    if index is not None:
        for position in _PER_DIRECTION:
            if position < len(inputs) and inputs[position]:
                inputs[position] = _slice(b, inputs[position], index)
    kept = {a.name: attribute(node, a.name) for a in node.attribute}
    own = {name: value for name, value in kept.items() if name not in _OWN_ATTRIBUTES}
    b.op(node.op_type, *inputs, outputs=len(node.output), **own)
    outputs = list(b.nodes[-1].output)
    if backwards:
        outputs[0] = b.op("Gather", outputs[0], order, axis=0)
    return outputs


def _slice(b: Builder, name: str, index: int) -> str:
    return b.op("Slice", name, b.ints([index]), b.ints([index + 1]), b.ints([0]))
