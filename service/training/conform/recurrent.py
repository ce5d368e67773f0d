"""LSTM and GRU: the gradient needs explicit initial states, and trains all weights or none."""

from __future__ import annotations

from collections.abc import Sequence

import onnx

from service.training.conform.draft import Draft
from service.training.forward.build import Builder
from service.training.forward.graph import Graph, attribute, input_at, int_attribute

STATES = {"LSTM": (5, 6), "GRU": (5,)}
"""Inputs that hold the initial states."""


def mend(draft: Draft) -> None:
    """Add zero initial states where they are left out, and refuse weights frozen on the path."""
    replaced: dict[str, Sequence[onnx.NodeProto]] = {}
    wanting = []
    for node in draft.nodes(*STATES):
        _check_form(draft, node)
    for node in draft.path(*STATES):
        _check_weights(draft, node)
        missing = [index for index in STATES[node.op_type] if not input_at(node, index)]
        if missing:
            wanting.append(node)
            replaced[node.name] = _with_states(draft.graph, node, missing)
    draft.note(wanting, "zero initial states were added, which the gradient needs")
    draft.graph.replace(replaced)


def _check_weights(draft: Draft, node: onnx.NodeProto) -> None:
    """The engine crashes on weights without a gradient where the input needs one."""
    moving = draft.moving()
    frozen = [name for name in node.input[1:4] if name and name not in moving]
    if frozen:
        draft.refuse(
            node,
            f"lies above trainable parameters and has frozen weights ({', '.join(frozen)}); "
            "train these too, or freeze all that lies below",
        )


def _check_form(draft: Draft, node: onnx.NodeProto) -> None:
    """The engine puts its training kernels in everywhere, so this holds below the path too."""
    if attribute(node, "activations") not in (None, *_default_activations(node)):
        draft.refuse(node, "has activations of its own; only the default ones have a gradient")
    if input_at(node, 4):
        draft.refuse(node, "reads sequence_lens; export it with sequences of one length")
    if node.op_type == "LSTM" and input_at(node, 7):
        draft.refuse(node, "has peephole weights, which have no gradient")
    for name in ("clip", "input_forget"):
        if attribute(node, name):
            draft.refuse(node, f"has {name}, which the engine cannot train; export it without")


def _default_activations(node: onnx.NodeProto) -> list[list[bytes]]:
    names = [b"Sigmoid", b"Tanh", b"Tanh"] if node.op_type == "LSTM" else [b"Sigmoid", b"Tanh"]
    return [names]


def _with_states(
    graph: Graph, node: onnx.NodeProto, missing: Sequence[int]
) -> list[onnx.NodeProto]:
    b = Builder(graph, node.name)
    weights = graph.dims(node.input[2])
    hidden = weights[2] if weights and weights[2] else int_attribute(node, "hidden_size", 0)
    batch = b.op("Gather", b.op("Shape", node.input[0]), b.ints([1]), axis=0)
    shape = b.op("Concat", b.ints([1]), batch, b.ints([hidden]), axis=0)
    zeros = b.op("ConstantOfShape", shape)
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    last = max(missing)
    copy.input.extend([""] * (last + 1 - len(copy.input)))
    for index in missing:
        copy.input[index] = zeros
    return [*b.nodes, copy]
