"""The optimizer as an ONNX model over flat buffers, block by block.

A block of some 32,000 elements stays in the processor's cache while ten operators pass over it: a
`Scan` over the rows of [rows, width] took 1.30 ms for AdamW on 655,000 elements, operators over
all of them 2.3, on one thread. numpy in blocks was as fast on one thread, but two threads of it
wait for the interpreter's lock.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import onnx
from onnx.helper import (
    make_graph,
    make_model,
    make_node,
    make_opsetid,
    make_tensor_value_info,
)

from service.training.optimizer.recipe import Recipe
from service.training.optimizer.rules import EPSILON, RULES, Nodes

OPSET, IR_VERSION = 17, 8
PARAMETER, RATE, DECAY = "parameter", "rate", "decay"
FACTOR, EMA, EMA_DECAY = "gradient_factor", "ema", "ema_decay"
NORM = "square_sum"
NEW = ".new"
"""Ends the name of what an update gives, which lies where the old value was."""
BLOCK = ".block"
"""Ends the names inside of the Scan."""
ELEMENTS, ROW = ("rows", "width"), ("rows", 1)


def gradient_name(number: int) -> str:
    return f"gradient.{number}"


def slots(recipe: Recipe) -> tuple[str, ...]:
    """The state beside the parameters, in flat buffers of their size that begin as 0."""
    average = () if recipe.ema_decay is None else (EMA,)
    return (*RULES[recipe.optimizer].slots_of(recipe), *average)


def scalar_names(recipe: Recipe) -> tuple[str, ...]:
    """Inputs float32[1] of each step."""
    chosen = {
        EPSILON: RULES[recipe.optimizer].scalars is not None,
        FACTOR: recipe.max_grad_norm is not None,
        EMA_DECAY: recipe.ema_decay is not None,
    }
    return tuple(name for name, wanted in chosen.items() if wanted)


def row_names(recipe: Recipe) -> tuple[str, ...]:
    """Inputs float32[rows, 1] of each step."""
    return (RATE, DECAY) if recipe.weight_decay else (RATE,)


def update_model(recipe: Recipe, *, gradients: int, rows: int) -> onnx.ModelProto:
    """One step, in place. gradients: how many buffers add up to the gradient.

    Inputs `parameter`, `gradient.<n>` and the slots, float32[rows, width]; row_names; scalar_names.
    decay is 1 - rate * weight decay where that is decoupled, else the weight decay. Outputs
    `parameter.new` and `<slot>.new`.
    """
    rule, b = RULES[recipe.optimizer], Nodes()
    gradient = _whole_gradient(b, recipe, gradients)
    parameter = PARAMETER
    if recipe.weight_decay and rule.decoupled:
        parameter = b.mul(parameter, DECAY)
    elif recipe.weight_decay:
        gradient = b.add(gradient, b.mul(parameter, DECAY))
    own = rule.slots_of(recipe)
    direction, updated = rule.direction(b, recipe, gradient, own)
    moved = b.sub(parameter, b.mul(direction, RATE))
    results = dict(zip((PARAMETER, *own), (moved, *updated), strict=True))
    if recipe.ema_decay is not None:
        results[EMA] = b.add(moved, b.mul(b.sub(EMA, moved), EMA_DECAY))
    scanned = [PARAMETER, *map(gradient_name, range(gradients)), *slots(recipe)]
    body = _Body(
        b,
        blocks=scanned,
        rows=row_names(recipe),
        scalars=scalar_names(recipe),
        outputs={name + NEW: value for name, value in results.items()},
        shape=ELEMENTS,
    )
    return _once(body) if rows == 1 else _scan(body)


def norm_model(*, gradients: int) -> onnx.ModelProto:
    """The sum of the gradient's squares in each block: `square_sum`, float32[rows, 1]."""
    b = Nodes()
    total = _sum(b, gradients)
    return _scan(
        _Body(
            b,
            blocks=[gradient_name(each) for each in range(gradients)],
            outputs={NORM: b.emit("ReduceSumSquare", total, keepdims=1)},
            shape=ROW,
        )
    )


def _sum(b: Nodes, gradients: int) -> str:
    total = gradient_name(0)
    for each in range(1, gradients):
        total = b.add(total, gradient_name(each))
    return total


def _whole_gradient(b: Nodes, recipe: Recipe, gradients: int) -> str:
    gradient = _sum(b, gradients)
    if recipe.max_grad_norm is not None:
        gradient = b.mul(gradient, FACTOR)
    if recipe.max_grad_value is not None:
        most = b.constant(recipe.max_grad_value)
        gradient = b.emit("Clip", gradient, b.constant(-recipe.max_grad_value), most)
    return gradient


@dataclass(frozen=True, slots=True)
class _Body:
    """What is done to a block. blocks: [rows, width], rows: [rows, 1], scalars: [1], by name.

    outputs: the values that are given, by their names outside; shape: of all rows of them.
    """

    b: Nodes
    blocks: Sequence[str]
    outputs: dict[str, str]
    shape: tuple[str | int, ...]
    rows: Sequence[str] = ()
    scalars: Sequence[str] = ()


def _once(body: _Body) -> onnx.ModelProto:
    """All rows at a time: for few elements, where the Scan would cost more than they do."""
    for name, value in body.outputs.items():
        body.b.rename(value, name)
    return _model(body, body.b.nodes, list(body.b.constants.values()))


def _scan(body: _Body) -> onnx.ModelProto:
    """Row by row; the scalars stay outside."""
    b, scanned = body.b, [*body.blocks, *body.rows]
    for name, value in body.outputs.items():
        b.rename(value, name + BLOCK)
    for name in scanned:
        b.rename(name, name + BLOCK)
    graph = make_graph(
        b.nodes,
        "block",
        [*_tensors(body.blocks, ELEMENTS[1:], BLOCK), *_tensors(body.rows, ROW[1:], BLOCK)],
        _tensors(body.outputs, body.shape[1:], BLOCK),
        list(b.constants.values()),
    )
    outputs = list(body.outputs)
    node = make_node("Scan", scanned, outputs, body=graph, num_scan_inputs=len(scanned))
    return _model(body, [node], [])


def _model(
    body: _Body, nodes: list[onnx.NodeProto], constants: list[onnx.TensorProto]
) -> onnx.ModelProto:
    inputs = [
        *_tensors(body.blocks, ELEMENTS),
        *_tensors(body.rows, ROW),
        *_tensors(body.scalars, [1]),
    ]
    graph = make_graph(nodes, "optimizer", inputs, _tensors(body.outputs, body.shape), constants)
    return make_model(graph, opset_imports=[make_opsetid("", OPSET)], ir_version=IR_VERSION)


def _tensors(
    names: Iterable[str], shape: Sequence[str | int], suffix: str = ""
) -> list[onnx.ValueInfoProto]:
    return [make_tensor_value_info(name + suffix, onnx.TensorProto.FLOAT, shape) for name in names]
