"""What no pass could mend, said once for every node."""

from __future__ import annotations

import onnx

from service.training.conform.draft import Draft
from service.training.conform.errors import pointer
from service.training.conform.gradient import has_gradient
from service.training.conform.graph import DEFAULT_DOMAINS, Graph, int_attribute, is_default
from storage.errors import Problem

_CONTROL_FLOW = ("If", "Loop", "Scan")
_RANDOM = (
    *("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"),
    *("Bernoulli", "Multinomial", "Dropout"),
)
_QUANTIZED = ("Quantize", "Dequantize", "QLinear", "MatMulInteger", "ConvInteger", "DynamicQuant")


def judge(draft: Draft) -> None:
    """Add a problem for each node that needs a gradient and has none."""
    for node in draft.path():
        if not has_gradient(node):
            draft.refuse(node, remedy(node))
        elif is_default(node, "Conv") and _rank(draft, node) > 5:
            draft.refuse(node, "has more than three spatial axes, which have no gradient")
        elif is_default(node, "MaxPool") and _is_vague(draft, node):
            draft.refuse(node, "has an input of unknown shape; export it with fixed sizes")
        elif is_default(node, "MaxPool") and int_attribute(node, "storage_order", 0):
            draft.refuse(node, "has storage_order=1, which has no gradient; export row-major")


def _rank(draft: Draft, node: onnx.NodeProto) -> int:
    return len(draft.graph.dims(node.input[0]) or ())


def _is_vague(draft: Draft, node: onnx.NodeProto) -> bool:
    """The engine reads the sizes from the graph, and crashes on those that it does not find."""
    dims = draft.graph.dims(node.input[0])
    return dims is None or None in dims[1:]


def draws(graph: Graph) -> list[Problem]:
    """A problem for each node that draws random numbers of its own.

    1.19.2 seeds them when a session is made: a job that was paused would draw others, a sample's
    features would keep what was drawn once, and no two versions would answer alike.
    """
    return [
        Problem(
            pointer("model", "graph", "node", node.name),
            f'node "{node.name}" ({node.op_type}) draws random numbers, which no resumed job could '
            "repeat; make the noise an input of the model, or export the model without it",
        )
        for node in graph.proto.node
        if is_random(node) and not is_default(node, "Dropout")
    ]


def is_random(node: onnx.NodeProto) -> bool:
    """Does the operator give something else each time?"""
    return is_default(node, *_RANDOM)


def is_quantized(node: onnx.NodeProto) -> bool:
    """Does the operator compute on quantized values?"""
    return any(node.op_type.startswith(prefix) for prefix in _QUANTIZED)


def remedy(node: onnx.NodeProto) -> str:
    """Why a node cannot train, and what to do about it."""
    if is_quantized(node):
        return "is quantized and cannot train; export the unfused float model"
    if node.domain not in DEFAULT_DOMAINS:
        return (
            f"is an operator of {node.domain}, which has no gradient; "
            "export the unfused float model, without runtime optimizations"
        )
    if node.op_type in _CONTROL_FLOW:
        return "is control flow, which has no gradient; export the model traced and unrolled"
    return (
        "has no gradient and cannot be rewritten here; use another operator, "
        "or train only parameters that lie above it"
    )
