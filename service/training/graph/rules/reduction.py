"""Reductions, softmax and cumulative sums: g and y are first stretched to the shape of x."""

from __future__ import annotations

from collections.abc import Callable

import onnx

from service.training.graph.node import GradientRule, Gradients, Node
from service.training.graph.tensor import Tensor


def axes_of(node: Node) -> list[int]:
    """The axes that a Reduce operator sums, counted from the front."""
    axes = node.numbers(1, "axes")
    if not axes and node.attribute("noop_with_empty_axes", 0):
        return []
    return node.x.axes(axes or None)


def _kept(node: Node, reduced: Tensor) -> Tensor:
    """With size 1 where an axis was summed away."""
    if node.attribute("keepdims", 1) or _is_scalar(node):
        return reduced
    return reduced.unsqueeze(*axes_of(node))


def _is_scalar(node: Node) -> bool:
    """Are all axes summed away? A number broadcasts by itself."""
    return node.optional(1) is None and not node.attribute("noop_with_empty_axes", 0)


PARTS: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "ReduceL1": lambda g, y, x: g * x.sign(),
    # 0 where all of x is, as in PyTorch.
    "ReduceL2": lambda g, y, x: x * y.equal(0).where(0, g / y),
    "ReduceLogSum": lambda g, y, x: (g / y.exp()).expand_like(x),
    "ReduceLogSumExp": lambda g, y, x: g * (x - y).exp(),
    "ReduceSum": lambda g, y, x: g.expand_like(x),
    "ReduceSumSquare": lambda g, y, x: g * 2 * x,
}


def rule_of(part: Callable[[Tensor, Tensor, Tensor], Tensor]) -> GradientRule:
    """g and y keep their axes, so that they broadcast against x."""

    def rule(node: Node, g: Tensor) -> Gradients:
        return [part(_kept(node, g), _kept(node, node.y), node.x)]

    return rule


def mean(node: Node, g: Tensor) -> Gradients:
    """g / count, everywhere."""
    return [_kept(node, g).per_number(node.x, axes_of(node)).expand_like(node.x)]


def extreme(node: Node, g: Tensor) -> Gradients:
    """ReduceMax, ReduceMin: equal numbers share the gradient, as in torch.amax."""
    mask = node.x.equal(_kept(node, node.y)).cast_like(g)
    axes = axes_of(node)
    return [mask * (_kept(node, g) / mask.sum(axes, keep=True)) if axes else g]


def product(node: Node, g: Tensor) -> Gradients:
    """g times the product of the others, exact where some are zero."""
    x, axes = node.x, axes_of(node)
    zero = x.equal(0)
    zeros = zero.cast_like(x).sum(axes, keep=True)
    rest = zero.where(1, x)
    others = rest.op("ReduceProd", node.graph.ints(axes), keepdims=1)
    at_zero = zeros.equal(1).where(others, 0)
    elsewhere = zeros.equal(0).where(others, 0) / rest
    return [_kept(node, g) * zero.where(at_zero, elsewhere)]


def softmax(node: Node, g: Tensor) -> Gradients:
    """y·(g - Σ g·y)."""
    y, axis = _without_nan(node), node.x.axis(node.attribute("axis", -1))
    return [y * (g - (g * y).sum([axis], keep=True))]


def _without_nan(node: Node) -> Tensor:
    """The output, or by what the graph replaces it where it is NaN, as in attention.

    There g is 0, which times NaN would be NaN. PyTorch asks for NaN; ONNX's Attention, for rows of
    which all is masked.
    """
    y, name = node.y, node.y.name
    readers = _readers(node, name)
    checks = {reader.output[0] for reader in readers if reader.op_type == "IsNaN"}
    if [reader.op_type for reader in readers] == ["Cast"]:
        name = readers[0].output[0]
        readers = _readers(node, name)
    for user in readers:
        if user.op_type == "Where" and user.input[2] == name:
            where = node.graph.tensor(user.input[0])
            if where.name in checks or (len(readers) == 1 and _is_of_rows(node, where)):
                return node.graph.tensor(user.output[0]).cast_like(y)
    return y


def _readers(node: Node, name: str) -> list[onnx.NodeProto]:
    """Of its numbers."""
    return [user for user in node.graph.nodes if name in user.input and user.op_type != "Shape"]


def _is_of_rows(node: Node, condition: Tensor) -> bool:
    """Does it hold for all that a Softmax compares, or for none of it?"""
    axis = node.x.axis(node.attribute("axis", -1)) - node.x.rank
    shape = condition.shape
    return shape is not None and (len(shape) < -axis or shape[axis] == 1)


def log_softmax(node: Node, g: Tensor) -> Gradients:
    """g - softmax·Σ g."""
    axis = node.x.axis(node.attribute("axis", -1))
    return [g - node.y.exp() * g.sum([axis], keep=True)]


def lp_normalization(node: Node, g: Tensor) -> Gradients:
    """x / |x| along one axis, with the norm of order 1 or 2."""
    x, y, axis = node.x, node.y, node.x.axis(node.attribute("axis", -1))
    if node.attribute("p", 2) == 1:
        norm, by_norm = x.abs().sum([axis], keep=True), x.sign()
    else:
        norm, by_norm = (x * x).sum([axis], keep=True).sqrt(), y
    flow = (g - by_norm * (g * y).sum([axis], keep=True)) / norm
    return [norm.equal(0).where(0, flow)]


def cumulative_sum(node: Node, g: Tensor) -> Gradients:
    """The same sum from the other end."""
    back, exclusive = 1 - node.attribute("reverse", 0), node.attribute("exclusive", 0)
    return [g.op("CumSum", node.given(1), reverse=back, exclusive=exclusive), None]


RULES: dict[str, GradientRule] = {
    **{name: rule_of(part) for name, part in PARTS.items()},
    "CumSum": cumulative_sum,
    "LogSoftmax": log_softmax,
    "LpNormalization": lp_normalization,
    "ReduceMax": extreme,
    "ReduceMean": mean,
    "ReduceMin": extreme,
    "ReduceProd": product,
    "Softmax": softmax,
}
