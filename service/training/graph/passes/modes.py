"""Dropout and BatchNormalization, in inference and in training."""

from __future__ import annotations

from collections.abc import Container, Mapping

import onnx
from onnx import helper, inliner, numpy_helper, parser

from service.training.engines.manifest import Draw
from service.training.errors import refusal
from service.training.graph.builder import STANDARD
from service.training.graph.flow import add_ints, refill
from service.training.graph.passes.canonical import opset
from service.training.graph.tensor import Shape
from service.training.graph.types import type_of
from storage.errors import Problem, pointer

DOMAIN = "hone"
"""Domain of the functions below, which are inlined before any other pass."""

DROPOUT = """
<domain: "hone", opset_import: ["": 18]>
Dropout <ratio> (x, draw) => (y, mask) {
    limit = Constant <value_float: float = @ratio> ()
    one = Constant <value_float = 1.0> ()
    mask = GreaterOrEqual(draw, limit)
    kept = CastLike(mask, x)
    share = Sub(one, limit)
    share_like = CastLike(share, x)
    scaled = Div(kept, share_like)
    y = Mul(x, scaled)
}
"""

BATCH_NORMALIZATION = """
<domain: "hone", opset_import: ["": 18]>
BatchNormalization <epsilon, momentum>
(x, scale, shift, mean, variance, others, inner) => (y, new_mean, new_variance) {
    centre = ReduceMean(x, others)
    centred = Sub(x, centre)
    squared = Mul(centred, centred)
    spread = ReduceMean(squared, others)
    epsilon32 = Constant <value_float: float = @epsilon> ()
    small = CastLike(epsilon32, x)
    raised = Add(spread, small)
    deviation = Sqrt(raised)
    standard = Div(centred, deviation)
    wide_scale = Unsqueeze(scale, inner)
    wide_shift = Unsqueeze(shift, inner)
    scaled = Mul(standard, wide_scale)
    y = Add(scaled, wide_shift)
    momentum32 = Constant <value_float: float = @momentum> ()
    old = CastLike(momentum32, x)
    one32 = Constant <value_float = 1.0> ()
    one = CastLike(one32, x)
    new = Sub(one, old)
    batch_mean = Squeeze(centre, others)
    old_mean = Mul(mean, old)
    part_mean = Mul(batch_mean, new)
    new_mean = Add(old_mean, part_mean)
    all = Size(x)
    channels = Size(scale)
    rows = Div(all, channels)
    count = CastLike(rows, x)
    rest = Sub(count, one)
    unbiased = Div(count, rest)
    batch_spread = Squeeze(spread, others)
    batch_variance = Mul(batch_spread, unbiased)
    old_variance = Mul(variance, old)
    part_variance = Mul(batch_variance, new)
    new_variance = Add(old_variance, part_variance)
}
"""
"""Uses the batch's own statistics. The stored variance is unbiased, as in PyTorch."""


DEFAULTS = {"epsilon": 1e-5, "momentum": 0.9}
"""The inliner does not fill in defaults."""


def drops(node: onnx.NodeProto, numbers: Mapping[str, onnx.TensorProto]) -> bool:
    """Is it a Dropout that was exported for training?"""
    if node.domain not in STANDARD or node.op_type != "Dropout":
        return False
    if len(node.input) < 3 or not node.input[2]:
        return False
    flag = numbers.get(node.input[2])
    return flag is None or bool(numpy_helper.to_array(flag))


def switch_all_off(model: onnx.ModelProto, *op_types: str) -> None:
    """Put the nodes of these operators into inference mode."""
    for node in model.graph.node:
        if node.domain in STANDARD and node.op_type in op_types:
            switch_off(node)


def switch_off(node: onnx.NodeProto) -> None:
    """Put a Dropout, or a BatchNormalization, which then uses stored statistics, into inference
    mode.
    """
    if node.op_type == "Dropout":
        del node.input[2:]
    else:
        refill(node.attribute, [a for a in node.attribute if a.name != "training_mode"])
        del node.output[1:]


def draw_dropout(model: onnx.ModelProto) -> tuple[onnx.ModelProto, tuple[Draw, ...]]:
    """Make every active Dropout take its mask from an input. model: with types.

    Raises GraphRefused if a size other than the batch's is unknown.
    """
    numbers = {t.name: t for t in model.graph.initializer}
    shapes = _shapes(model)
    draws: list[Draw] = []
    problems: list[Problem] = []
    for node in model.graph.node:
        if not drops(node, numbers):
            continue
        shape = _drawn_shape(model, shapes.get(node.input[0]))
        ratio = numbers.get(node.input[1]) if node.input[1] else None
        if shape is None or (ratio is None and node.input[1]):
            problems.append(_problem(node))
            continue
        draws.append(Draw(f"hone.random.{node.name}", shape))
        share = 0.5 if ratio is None else float(numpy_helper.to_array(ratio))
        _replace(node, [node.input[0], draws[-1].name], ratio=share)
        dims = [_batch(model) if size == -1 else size for size in shape]
        model.graph.input.append(
            helper.make_tensor_value_info(draws[-1].name, onnx.TensorProto.FLOAT, dims)
        )
    if problems:
        raise refusal(problems)
    return _written_out(model, DROPOUT), tuple(draws)


def use_batch_statistics(model: onnx.ModelProto) -> tuple[onnx.ModelProto, dict[str, str]]:
    """Make every BatchNormalization with running statistics use the batch's. model: with types.

    Returns running statistic → the tensor that holds its new value.
    """
    shapes, stored = _shapes(model), {tensor.name for tensor in model.graph.initializer}
    updated: dict[str, str] = {}
    for node in model.graph.node:
        shape = shapes.get(node.input[0]) if has_running_statistics(node, stored) else None
        if shape is None:
            continue
        axes = {"others": [0, *range(2, len(shape))], "inner": list(range(1, len(shape) - 1))}
        for name, values in axes.items():
            add_ints(model.graph, f"{node.name}:{name}", *values)
        results = [f"hone.updated.{name}" for name in node.input[3:5]]
        updated.update(zip(node.input[3:5], results, strict=True))
        kept = DEFAULTS | {a.name: a.f for a in node.attribute if a.name in DEFAULTS}
        node.output[1:] = results
        _replace(node, [*node.input, *(f"{node.name}:{name}" for name in axes)], **kept)
    model.graph.output.extend(helper.make_empty_tensor_value_info(n) for n in updated.values())
    return _written_out(model, BATCH_NORMALIZATION), updated


def has_running_statistics(node: onnx.NodeProto, stored: Container[str]) -> bool:
    """Is it a BatchNormalization whose statistics are stored? Others compute them from what they
    read, in inference too, as standardized weights do (Qiao et al., 2019).

    stored: the names of initializers.
    """
    is_one = node.op_type == "BatchNormalization" and node.domain in STANDARD
    return is_one and all(name in stored for name in node.input[3:5])


def _shapes(model: onnx.ModelProto) -> dict[str, Shape | None]:
    values = (*model.graph.input, *model.graph.value_info, *model.graph.output)
    return {value.name: type_of(value.type)[1] for value in values}


def _drawn_shape(model: onnx.ModelProto, shape: Shape | None) -> tuple[int, ...] | None:
    if shape is None:
        return None
    batch = _batch(model)
    sizes = tuple(-1 if size == batch else size for size in shape)
    known = tuple(size for size in sizes if isinstance(size, int))
    return known if known == sizes else None


def _batch(model: onnx.ModelProto) -> str | int | None:
    """The name of the first input's first axis."""
    shape = type_of(model.graph.input[0].type)[1]
    return shape[0] if shape else None


def _replace(node: onnx.NodeProto, inputs: list[str], **attributes: float) -> None:
    """Call the function of the same name instead."""
    node.domain = DOMAIN
    del node.input[:], node.attribute[:]
    node.input.extend(inputs)
    node.attribute.extend(helper.make_attribute(*pair) for pair in attributes.items())


def _written_out(model: onnx.ModelProto, function: str) -> onnx.ModelProto:
    called = parser.parse_function(function)
    # The inliner leaves calls of functions that import another opset than the model.
    called.opset_import[0].version = opset(model)
    model.functions.append(called)
    model.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    return inliner.inline_local_functions(model)


def _problem(node: onnx.NodeProto) -> Problem:
    return Problem(
        pointer("model", "graph", "node", node.name),
        f'node "{node.name}" (Dropout) works on a tensor whose sizes are not fixed, or its ratio '
        "is computed, so its mask cannot be drawn; export it with fixed sizes, or switched off",
    )
