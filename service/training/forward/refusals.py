"""Finds the parts of a model that cannot be trained, and says what to do about them."""

from __future__ import annotations

import onnx

from service.training.forward.graph import Graph, is_default
from service.training.graph.builder import RANDOM, STANDARD
from service.training.graph.flow import CONTROL_FLOW, name_of
from service.training.graph.node import attributes_of
from service.training.graph.passes.microsoft import is_written_out
from service.training.graph.passes.prepare import LOWERED
from service.training.graph.passes.sequences import OPENED
from service.training.graph.rules import RULES
from storage.errors import Problem, pointer

_DRAWS = RANDOM - {"Dropout"}
_QUANTIZED = ("Quantize", "Dequantize", "QLinear", "MatMulInteger", "ConvInteger", "DynamicQuant")
NARROW = (
    *(onnx.TensorProto.INT8, onnx.TensorProto.UINT8, onnx.TensorProto.INT4, onnx.TensorProto.UINT4),
    *(onnx.TensorProto.FLOAT8E4M3FN, onnx.TensorProto.FLOAT8E5M2),
)
_WITH_GRADIENT = frozenset((*RULES, *LOWERED, *OPENED))


def has_gradient(node: onnx.NodeProto) -> bool:
    """Is there a rule for this operator, or is it expanded into operators that have one?"""
    return name_of(node) in _WITH_GRADIENT or is_written_out(node)


def draws(graph: Graph) -> list[Problem]:
    """A problem for each node that draws its own random numbers.

    The runtime seeds them when a session is created: a resumed job would draw different ones, a
    sample's features would keep the first draw, and no two versions would give the same output.
    """
    return [
        Problem(
            pointer("model", "graph", "node", node.name),
            f'node "{node.name}" ({node.op_type}) draws random numbers, which no resumed job could '
            "repeat; make the noise an input of the model, or export the model without it",
        )
        for node in graph.proto.node
        if is_default(node, *_DRAWS)
    ]


def is_quantized(node: onnx.NodeProto) -> bool:
    """Does the operator compute on quantized values?"""
    return any(node.op_type.startswith(prefix) for prefix in _QUANTIZED)


def takes_adapters(node: onnx.NodeProto) -> bool:
    """Do gradients go through this quantized operator?"""
    return has_gradient(node) and attributes_of(node).get("bits", 4) == 4


def quantized_layers(graph: Graph) -> list[onnx.NodeProto]:
    """The nodes that read weights of eight bits or fewer."""
    narrow = {
        name
        for name, tensor in graph.initializers.items()
        if tensor.data_type in NARROW and len(tensor.dims) > 1
    }
    return [node for node in graph.proto.node if not narrow.isdisjoint(node.input)]


def remedy(node: onnx.NodeProto) -> str:
    """Why a node cannot train, and what to do about it."""
    if is_quantized(node) or node.op_type == "MatMulNBits":
        form = "" if takes_adapters(node) else " beside its form in QDQ or four-bit MatMulNBits"
        return (
            "is quantized and cannot train; export the unfused float model, train adapters (lora)"
            f"{form}, or name as trainable what lies above it"
        )
    if node.domain == "ai.onnx.ml":
        return "is an operator of ai.onnx.ml, which has no gradient; train a neural network instead"
    if node.domain not in STANDARD:
        return (
            f"is an operator of {node.domain}, which has no gradient; "
            "export the unfused float model, without runtime optimizations"
        )
    if node.op_type in CONTROL_FLOW:
        return (
            "is control flow, which has no gradient; export the model with torch.where for If and "
            "loops unrolled"
        )
    return (
        "has no gradient and cannot be rewritten here; use another operator, "
        "or train only parameters that lie above it"
    )
