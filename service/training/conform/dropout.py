"""Dropout: the gradient needs the mask; what is switched off is taken out."""

from __future__ import annotations

from collections.abc import Sequence

import onnx

from service.training.conform.draft import Draft
from service.training.forward import trial


def mend(draft: Draft) -> None:
    """Give every active Dropout its mask output, and remove those exported for inference."""
    graph = draft.graph
    removed: dict[str, Sequence[onnx.NodeProto]] = {}
    masked = []
    for node in draft.nodes("Dropout"):
        if trial.trains(node, graph.proto):
            _unseed(node)
            if len(node.output) < 2 or not node.output[1]:
                node.output[1:] = [graph.fresh(f"{node.name}_mask")]
                masked.append(node)
        elif len(node.output) < 2 or not graph.consumers(node.output[1]):
            name = node.name
            removed[node.name] = [
                onnx.helper.make_node("Identity", [node.input[0]], [node.output[0]], name=name)
            ]
    off = [node for node in draft.nodes("Dropout") if node.name in removed]
    draft.note(
        off,
        "Dropout that was exported for inference stays off (export in training mode to use it)",
    )
    draft.note(masked, "Dropout was given the mask output that its gradient needs")
    graph.replace(removed)


def _unseed(node: onnx.NodeProto) -> None:
    """Let the job decide: a seed of the node's own ignores the job's, and would not repeat."""
    kept = [attribute for attribute in node.attribute if attribute.name != "seed"]
    del node.attribute[:]
    node.attribute.extend(kept)
