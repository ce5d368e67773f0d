"""Writes operators of com.microsoft, ONNX Runtime's own, as standard ones.

Each becomes a call of a function that is defined here and inlined before any other pass. Source:
docs/ContribOperators.md of ONNX Runtime.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import onnx
from onnx import helper, inliner, parser

from service.training.graph.builder import STANDARD
from service.training.graph.node import attributes_of

DOMAIN = "com.microsoft"
LOCAL = "hone.written_out"
Body: TypeAlias = Callable[[onnx.NodeProto, dict[str, Any]], "str | None"]
"""A function's lines, where a, b, c … are the inputs, y and y1, y2 … the outputs.

None if the node uses an unsupported feature.
"""


def write_out(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model without the operators that are defined here."""
    changed = False
    for index, node in enumerate(model.graph.node):
        lines = _lines(node)
        if lines is not None:
            model.functions.append(_function(node, index, lines, model))
            node.domain, node.op_type = LOCAL, f"{node.op_type}{index}"
            changed = True
    if not changed:
        return model
    model.opset_import.append(helper.make_opsetid(LOCAL, 1))
    return inliner.inline_local_functions(model)


def is_written_out(node: onnx.NodeProto) -> bool:
    """Is there a definition for this node, with its inputs and attributes?"""
    return _lines(node) is not None


def _lines(node: onnx.NodeProto) -> str | None:
    body = BODIES.get(node.op_type)
    simplified = node.op_type == "SimplifiedLayerNormalization" and node.domain in STANDARD
    if body is None or not (node.domain == DOMAIN or simplified):
        return None
    return body(node, attributes_of(node))


def _function(
    node: onnx.NodeProto, index: int, lines: str, model: onnx.ModelProto
) -> onnx.FunctionProto:
    version = next(o.version for o in model.opset_import if o.domain in STANDARD)
    inputs = ", ".join("abcdefghij"[: len(node.input)])
    outputs = ", ".join("y" if i == 0 else f"y{i}" for i in range(len(node.output)))
    del node.attribute[:]
    return parser.parse_function(
        f'<domain: "{LOCAL}", opset_import: ["": {version}]>\n'
        f"{node.op_type}{index} ({inputs}) => ({outputs}) {{\n{lines}\n}}"
    )


def _has(node: onnx.NodeProto, index: int) -> bool:
    return index < len(node.input) and bool(node.input[index])


def _number(name: str, value: float) -> str:
    """A float32 in the type of a."""
    return f"{name}_f = Constant <value_float = {value!r}> ()\n{name} = CastLike({name}_f, a)\n"


def _gelu(source: str) -> str:
    return (
        _number("root", math.sqrt(2))
        + _number("half", 0.5)
        + _number("one", 1.0)
        + f"inner = Div({source}, root)\nerf = Erf(inner)\nraised = Add(erf, one)\n"
        + f"share = Mul(raised, half)\ny = Mul({source}, share)"
    )


def _fast_gelu(node: onnx.NodeProto, _: dict[str, Any]) -> str:
    first = "s = Add(a, b)\n" if _has(node, 1) else "s = Identity(a)\n"
    return (
        first
        + _number("cubic", 0.044715)
        + _number("scale", math.sqrt(2 / math.pi))
        + _number("half", 0.5)
        + _number("one", 1.0)
        + "s2 = Mul(s, s)\ns3 = Mul(s2, s)\nbent = Mul(s3, cubic)\nsum = Add(s, bent)\n"
        + "inner = Mul(sum, scale)\nt = Tanh(inner)\nraised = Add(t, one)\n"
        + "share = Mul(raised, half)\ny = Mul(s, share)"
    )


def _quick_gelu(_: onnx.NodeProto, attributes: dict[str, Any]) -> str:
    alpha = attributes.get("alpha", 1.702)
    return _number("alpha", alpha) + "inner = Mul(a, alpha)\ns = Sigmoid(inner)\ny = Mul(a, s)"


def _fused_matmul(_: onnx.NodeProto, attributes: dict[str, Any]) -> str | None:
    """Transposes the last two axes by Einsum, which works for any rank."""
    if attributes.get("transBatchA") or attributes.get("transBatchB"):
        return None
    left = "...ji" if attributes.get("transA") else "...ij"
    right = "...kj" if attributes.get("transB") else "...jk"
    product = (
        "p = MatMul(a, b)\n"
        if (left, right) == ("...ij", "...jk")
        else f'p = Einsum <equation = "{left},{right}->...ik"> (a, b)\n'
    )
    alpha = attributes.get("alpha", 1.0)
    return product + _number("alpha", alpha) + "y = Mul(p, alpha)"


def _skip_layer_normalization(node: onnx.NodeProto, attributes: dict[str, Any]) -> str | None:
    """Normalizes a + b, and perhaps a bias e; c scales, d shifts. The sum may be output 3."""
    if any(node.output[1:3]):
        return None
    lines = "s0 = Add(a, b)\n"
    lines += "s = Add(s0, e)\n" if _has(node, 4) else "s = Identity(s0)\n"
    epsilon = attributes.get("epsilon", 1e-12)
    scale = "s, c, d" if _has(node, 3) else "s, c"
    lines += f"y = LayerNormalization <axis = -1, epsilon = {epsilon!r}> ({scale})\n"
    return lines + ("y3 = Identity(s)\n" if len(node.output) > 3 else "")


def _simplified(source: str, scale: str, epsilon: float) -> str:
    return (
        _number("small", epsilon)
        + f"last = Constant <value_ints = [-1]> ()\nsquared = Mul({source}, {source})\n"
        + "mean = ReduceMean <keepdims = 1> (squared, last)\nraised = Add(mean, small)\n"
        + f"root = Sqrt(raised)\nnormal = Div({source}, root)\ny = Mul(normal, {scale})\n"
    )


def _simplified_layer_normalization(node: onnx.NodeProto, attributes: dict[str, Any]) -> str | None:
    if attributes.get("axis", -1) != -1 or any(node.output[1:]):
        return None
    return _simplified("a", "b", attributes.get("epsilon", 1e-5))


def _skip_simplified(node: onnx.NodeProto, attributes: dict[str, Any]) -> str | None:
    """Normalizes a + b, and perhaps a bias d; c scales. The sum may be output 3."""
    if any(node.output[1:3]):
        return None
    lines = "s0 = Add(a, b)\n" + ("s = Add(s0, d)\n" if _has(node, 3) else "s = Identity(s0)\n")
    lines += _simplified("s", "c", attributes.get("epsilon", 1e-12))
    return lines + ("y3 = Identity(s)\n" if len(node.output) > 3 else "")


def _attention(node: onnx.NodeProto, attributes: dict[str, Any]) -> str | None:
    """Of a, (batch, sequence, width), by one matrix b of queries, keys and values, and a bias c."""
    plain = len([*filter(None, node.input)]) <= 3 and not any(node.output[1:])
    other = {"unidirectional", "qkv_hidden_sizes", "do_rotary", "past_present_share_buffer"}
    if not plain or any(attributes.get(name) for name in other):
        return None
    heads = attributes["num_heads"]
    split = (
        f"heads = Constant <value_ints = [0, 0, 3, {heads}, -1]> ()\n"
        + "packed = Reshape(all, heads)\n"
        + "parts = Transpose <perm = [2, 0, 3, 1, 4]> (packed)\n"
        + "".join(
            f"at{i} = Constant <value_int = {i}> ()\n{name} = Gather <axis = 0> (parts, at{i})\n"
            for i, name in enumerate(("q", "k", "v"))
        )
    )
    scaled = (
        _number("scale", attributes["scale"])
        if attributes.get("scale")
        else (
            "end = Shape <start = 3> (q)\nsize = CastLike(end, a)\nroot = Sqrt(size)\n"
            "scale = Reciprocal(root)\n"
        )
    )
    return (
        (
            "product = MatMul(a, b)\n"
            + ("all = Add(product, c)\n" if _has(node, 2) else "all = Identity(product)\n")
        )
        + split
        + scaled
        + "turned = Transpose <perm = [0, 1, 3, 2]> (k)\nraw = MatMul(q, turned)\n"
        + "scores = Mul(raw, scale)\nweights = Softmax <axis = -1> (scores)\n"
        + "mixed = MatMul(weights, v)\nlast = Transpose <perm = [0, 2, 1, 3]> (mixed)\n"
        + "flat = Constant <value_ints = [0, 0, -1]> ()\ny = Reshape(last, flat)"
    )


BODIES: dict[str, Body] = {
    "Attention": _attention,
    "BiasGelu": lambda _, __: "s = Add(a, b)\n" + _gelu("s"),
    "FastGelu": _fast_gelu,
    "FusedMatMul": _fused_matmul,
    "Gelu": lambda _, __: _gelu("a"),
    "QuickGelu": _quick_gelu,
    "SimplifiedLayerNormalization": _simplified_layer_normalization,
    "SkipLayerNormalization": _skip_layer_normalization,
    "SkipSimplifiedLayerNormalization": _skip_simplified,
}
