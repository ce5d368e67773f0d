"""Einsum as Transpose, Reshape and MatMul, which have a gradient."""

from __future__ import annotations

from dataclasses import dataclass

import onnx

from service.training.forward.build import Builder
from service.training.forward.graph import attribute, input_at

Sizes = dict[str, "int | None"]


@dataclass(frozen=True, slots=True)
class _Operand:
    """A tensor and the label of each of its axes."""

    name: str
    labels: str


def einsum(b: Builder, node: onnx.NodeProto) -> str | None:
    """Operands without repeated labels, contracted pair by pair from the left."""
    equation = attribute(node, "equation")
    assert isinstance(equation, bytes)
    parsed = _parse(equation.decode())
    if parsed is None or len(parsed[0]) != len(node.input):
        return None
    terms, result = parsed
    operands = [_Operand(input_at(node, i), labels) for i, labels in enumerate(terms)]
    sizes = _sizes(b, operands)
    if sizes is None:
        return None
    total = operands[0]
    for index, operand in enumerate(operands[1:], 1):
        kept = {*result, *"".join(terms[index + 1 :])}
        total = _contract(b, _shed(b, total, kept | {*operand.labels}), operand, kept, sizes)
    total = _shed(b, total, {*result})
    return b.transpose(total.name, [total.labels.index(label) for label in result])


def _parse(equation: str) -> tuple[list[str], str] | None:
    """`ij,jk->ik` → (["ij", "jk"], "ik"); None if it has an ellipsis or repeats a label."""
    left, arrow, result = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if not arrow:
        letters = "".join(terms)
        result = "".join(sorted(c for c in set(letters) if letters.count(c) == 1))
    if "." in equation or any(len(set(term)) != len(term) for term in terms):
        return None
    return terms, result


def _sizes(b: Builder, operands: list[_Operand]) -> Sizes | None:
    """Extent of each label; None if a rank is unknown, or more than one extent."""
    sizes: Sizes = {}
    for operand in operands:
        dims = b.graph.dims(operand.name)
        if dims is None or len(dims) != len(operand.labels):
            return None
        sizes.update(zip(operand.labels, dims, strict=True))
    return None if sum(size is None for size in sizes.values()) > 1 else sizes


def _shed(b: Builder, operand: _Operand, kept: set[str]) -> _Operand:
    """Sum over the axes whose label nothing else has."""
    axes = [axis for axis, label in enumerate(operand.labels) if label not in kept]
    if not axes:
        return operand
    name = b.reduce("ReduceSum", operand.name, axes, keepdims=False)
    return _Operand(name, "".join(label for label in operand.labels if label in kept))


def _contract(
    b: Builder, left: _Operand, right: _Operand, kept: set[str], sizes: Sizes
) -> _Operand:
    right = _shed(b, right, kept | {*left.labels})
    both = [label for label in left.labels if label in right.labels]
    shared = [label for label in both if label in kept]
    summed = [label for label in both if label not in kept]
    rows = [label for label in left.labels if label not in both]
    columns = [label for label in right.labels if label not in both]
    product = b.op(
        "MatMul",
        _arrange(b, left, (shared, rows, summed), sizes),
        _arrange(b, right, (shared, summed, columns), sizes),
    )
    order = "".join([*shared, *rows, *columns])
    return _Operand(b.reshape(product, [sizes[label] or -1 for label in order]), order)


def _arrange(
    b: Builder, operand: _Operand, groups: tuple[list[str], list[str], list[str]], sizes: Sizes
) -> str:
    order = [label for group in groups for label in group]
    moved = b.transpose(operand.name, [operand.labels.index(label) for label in order])
    return b.reshape(moved, [_extent(group, sizes) for group in groups])


def _extent(labels: list[str], sizes: Sizes) -> int:
    extent = 1
    for label in labels:
        size = sizes[label]
        if size is None:
            return -1
        extent *= size
    return extent
