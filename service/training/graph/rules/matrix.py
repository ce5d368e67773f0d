"""Matrix products: Gemm, MatMul, Einsum. Gradients unpack weights of fewer bits again."""

from __future__ import annotations

import numpy as np
from onnx import helper

from service.training.graph.broadcast import unbroadcast
from service.training.graph.builder import STANDARD
from service.training.graph.node import GradientRule, Gradients, Node, attributes_of
from service.training.graph.tensor import Dim, NotDifferentiable, Tensor

UNPACKS = ("Cast", "DequantizeLinear")


def multiply(
    a: Tensor, b: Tensor, *, ta: bool = False, tb: bool = False, alpha: float = 1.0
) -> Tensor:
    """alpha·A·B of matrices, either one transposed."""
    return a.op("Gemm", b, transA=int(ta), transB=int(tb), alpha=alpha)


def gemm(node: Node, g: Tensor) -> Gradients:
    """Y = alpha·A'·B' + beta·C, where A' and B' may be transposed."""
    a, b, c = node.given(0), node.given(1), node.optional(2)
    ta, tb = bool(node.attribute("transA", 0)), bool(node.attribute("transB", 0))
    alpha = node.attribute("alpha", 1.0)
    by_a = by_b = by_c = None
    if node.wants(0):
        by_a = (
            multiply(b, g, ta=tb, tb=True, alpha=alpha)
            if ta
            else multiply(g, unpacked_late(b, g), tb=not tb, alpha=alpha)
        )
    if node.wants(1):
        by_b = (
            multiply(g, a, ta=True, tb=ta, alpha=alpha)
            if tb
            else multiply(a, g, ta=not ta, alpha=alpha)
        )
    if c is not None and node.wants(2):
        by_c = unbroadcast(g, node.y, c) * node.attribute("beta", 1.0)
    return [by_a, by_b, by_c]


def matmul(node: Node, g: Tensor) -> Gradients:
    """As numpy.matmul: vectors become matrices, leading axes are broadcast."""
    a, b = node.given(0), node.given(1)
    y = node.y
    if a.rank == 1 and b.rank == 1:
        return [g * b, g * a]
    if b.rank == 1:
        column = g.unsqueeze(-1)
        by_a, by_b = _by_each(node, a, b.unsqueeze(1), y.unsqueeze(-1), column)
        return [by_a, by_b and by_b.squeeze(1)]
    if a.rank == 1:
        row = g.unsqueeze(-2)
        by_a, by_b = _by_each(node, a.unsqueeze(0), b, y.unsqueeze(-2), row)
        return [by_a and by_a.squeeze(0), by_b]
    return _by_each(node, a, b, y, g)


def _by_each(
    node: Node, a: Tensor, b: Tensor, y: Tensor, g: Tensor
) -> tuple[Tensor | None, Tensor | None]:
    by_a = by_b = None
    if node.wants(0):
        by_a = _summed(g @ unpacked_late(b, g).swap(-1, -2), a, b, y)
    if node.wants(1):
        if b.rank == 2:  # one product over all rows instead of a sum of many
            by_b = multiply(_rows(a, b, 0), _rows(g, b, 1), ta=True).known_like(b)
        else:
            by_b = _summed(a.swap(-1, -2) @ g, b, a, y)
    return by_a, by_b


def _rows(x: Tensor, b: Tensor, axis: int) -> Tensor:
    """As a matrix with as many columns as b has on that axis."""
    columns = b.shape[axis] if b.shape is not None else None
    return x.reshape(-1, columns if isinstance(columns, int) else b.size(axis))


def _summed(gradient: Tensor, source: Tensor, other: Tensor, y: Tensor) -> Tensor:
    """Summed over the leading axes along which the source was broadcast: to those of the other."""
    if source.shape is None or y.shape is None or other.rank == 2:
        return gradient.known_like(source)
    broadcast = gradient.known(*y.shape[:-2], *source.shape[-2:])
    return unbroadcast(broadcast, broadcast, source)


def unpacked_late(matrix: Tensor, g: Tensor) -> Tensor:
    """The matrix; one unpacked from initializers is unpacked again, once g exists.

    Otherwise all such weights would stay unpacked in float32 from the forward pass on.
    """
    graph = matrix.graph
    nodes = graph.nodes if matrix.name not in graph.constants else ()
    node = next((n for n in nodes if n.op_type in UNPACKS and matrix.name in n.output), None)
    if node is None or node.domain not in STANDARD:
        return matrix
    if any(name not in graph.constants for name in node.input if name):
        return matrix
    packed, *others = (graph.tensor(name) if name else None for name in node.input)
    assert packed is not None  # ONNX's checker has verified it
    if node.op_type == "DequantizeLinear" and len(others) == 1 and others[0] is not None:
        # 1.19.2 writes a QuantizeLinear of uint8 behind one of int8 that has no zero point.
        kind = helper.tensor_dtype_to_np_dtype(packed.dtype)
        others.append(graph.constant(np.zeros(others[0].sizes or (), kind)))
    return late(packed, g).op(node.op_type, *others, **attributes_of(node))


def late(packed: Tensor, g: Tensor) -> Tensor:
    """The same tensor, made to depend on g.

    ONNX Runtime may run nodes that depend only on initializers at any time. It knows neither the
    size of g's batch, nor that the size minus itself is 0.
    """
    batch = g.size(0)
    if packed.shape is None or batch.value is not None:
        return packed
    sizes = packed.graph.ints([int(size) for size in packed.sizes or ()])
    return packed.op("Reshape", sizes + (batch - batch)).known_like(packed)


def einsum(node: Node, g: Tensor) -> Gradients:
    """The gradient of an operand is the einsum of g and the other operands, to its subscripts."""
    ranks = [node.given(i).rank for i in range(len(node.inputs))]
    terms, result = subscripts(node.attribute("equation"), ranks)
    return [_by_operand(node, g, i, terms, result) for i in range(len(terms))]


def _by_operand(node: Node, g: Tensor, index: int, terms: list[str], result: str) -> Tensor | None:
    if not node.wants(index):
        return None
    source, own = node.given(index), terms[index]
    if len(set(own)) < len(own):
        raise NotDifferentiable(f"it takes a diagonal of its input {index} ({own})")
    others = [i for i in range(len(terms)) if i != index]
    letters = "".join([result, *(terms[i] for i in others)])
    common = "".join(c for c in own if c in letters)
    equation = ",".join([result, *(terms[i] for i in others)]) + "->" + common
    tensors = [node.given(i) for i in others]
    gradient = node.graph.op("Einsum", g, *tensors, equation=equation)
    sizes = _sizes(node, terms)
    missing = [i for i, c in enumerate(own) if c not in letters]
    full = gradient.known(*(sizes[c] for c in common)).unsqueeze(*missing)
    if missing:
        full = full.expand_like(source)
    return unbroadcast(full, full, source)


def _sizes(node: Node, terms: list[str]) -> dict[str, Dim]:
    """The size of each letter; among broadcast sizes, the one that is not 1."""
    sizes: dict[str, Dim] = {}
    for index, term in enumerate(terms):
        for letter, dim in zip(term, node.given(index).shape or (), strict=True):
            if sizes.get(letter, 1) == 1 or (isinstance(dim, int) and dim != 1):
                sizes[letter] = dim
    return sizes


def subscripts(equation: str, ranks: list[int]) -> tuple[list[str], str]:
    """Terms of the operands and of the result; an ellipsis is written out as capital letters."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    hidden = max(
        (r - len(t) + 3 for t, r in zip(terms, ranks, strict=True) if "..." in t), default=0
    )
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[:hidden]
    if not arrow:
        plain = left.replace("...", "").replace(",", "")
        right = ("..." if "..." in left else "") + "".join(
            sorted(c for c in set(plain) if plain.count(c) == 1)
        )
    full = [
        t.replace("...", letters[hidden - (r - len(t) + 3) :] if "..." in t else "")
        for t, r in zip(terms, ranks, strict=True)
    ]
    return full, right.replace("...", letters)


RULES: dict[str, GradientRule] = {"Einsum": einsum, "Gemm": gemm, "MatMul": matmul}
