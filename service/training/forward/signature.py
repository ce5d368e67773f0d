"""The model's inputs and its labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

import numpy as np
import onnx

from service.training.errors import pointer, refusal, refuse
from service.training.forward import trial
from service.training.forward.graph import Graph, is_default
from storage.errors import Problem
from storage.records.models import Loss
from storage.records.signatures import TargetSpec, TensorSpec

LOSSES = get_args(Loss)
OPTIMIZERS = ("adamw", "sgd")
TARGET_NAME = {"cross_entropy": "labels"}
INPUT_DTYPES = frozenset(
    ("float32", "float64", "int64", "int32", "int16", "int8", "uint8", "uint16", "bool")
)

_APPLIED_AGAIN = {
    "cross_entropy": ("Softmax", "LogSoftmax"),
    "bce_with_logits": ("Sigmoid",),
}


def input_specs(graph: Graph, names: Sequence[str]) -> tuple[TensorSpec, ...]:
    """These inputs without their batch axis. Raises GraphRefused with all problems."""
    problems = [problem for name in names for problem in _input_problems(graph, name)]
    if not names:
        problems.append(Problem("/model/graph/input", "the graph has no input to train on"))
    if problems:
        raise refusal(problems)
    return tuple(_spec(graph, name) for name in names)


def _spec(graph: Graph, name: str) -> TensorSpec:
    dims = graph.dims(name)
    assert dims is not None
    return TensorSpec(name, _dtype(graph, name), tuple(size or 0 for size in dims[1:]))


def _dtype(graph: Graph, name: str) -> str:
    kind = graph.elem_type(name)
    if not kind or kind not in onnx.TensorProto.DataType.values():
        return "unknown"
    return str(onnx.helper.tensor_dtype_to_np_dtype(kind))


def _input_problems(graph: Graph, name: str) -> list[Problem]:
    place = pointer("model", "graph", "input", name)
    dims = graph.dims(name)
    dtype = _dtype(graph, name)
    problems = []
    if dtype not in INPUT_DTYPES:
        problems.append(Problem(place, f'input "{name}" is {dtype}; inputs may be float32 or ints'))
    if not dims:
        problems.append(Problem(place, f'input "{name}" has no batch axis; axis 0 must be it'))
        return problems
    problems += [
        Problem(
            f"{place}/shape/{axis}",
            f'axis {axis} of input "{name}" is not fixed; export it with a fixed size: '
            "only axis 0, the batch, may be dynamic",
        )
        for axis, size in enumerate(dims)
        if axis and size is None
    ]
    return problems


def target_spec(
    loss: str, output_shape: Sequence[int], classes: tuple[str, ...] | None
) -> TargetSpec:
    """The label's description.

    output_shape: of one row. Raises GraphRefused if the loss does not fit.
    """
    name = TARGET_NAME.get(loss, "target")
    if loss != "cross_entropy":
        if classes is not None:
            raise refuse(
                "/spec/classes", f"loss {loss} has no classes; drop them or train cross_entropy"
            )
        return TargetSpec(name, "float32", tuple(output_shape))
    if not output_shape or output_shape[0] < 2:
        raise refuse(
            "/spec/loss",
            f"cross_entropy takes logits (batch, classes, …) with two classes or more, the output "
            f"is {_shown(output_shape)}; choose bce_with_logits or mse{_turned(output_shape)}",
        )
    count = output_shape[0]
    if classes is not None and len(classes) != count:
        raise refuse(
            "/spec/classes",
            f"{len(classes)} class names, the output has {count} logits; name {count} classes"
            + (_turned(output_shape) if len(classes) == output_shape[-1] else ""),
        )
    if classes is not None and len(set(classes)) != len(classes):
        twice = next(name for at, name in enumerate(classes) if name in classes[:at])
        raise refuse("/spec/classes", f"class {twice!r} is named twice; names must differ")
    positions = tuple(output_shape[1:])
    return TargetSpec(name, "int64", positions, count, classes, may_ignore=bool(positions))


def class_axis_note(loss: str, output_shape: Sequence[int]) -> list[str]:
    """Which axis holds the classes if there are others: a swap cannot be detected otherwise.

    output_shape: of one row.
    """
    if loss != "cross_entropy" or len(output_shape) < 2:
        return []
    count, *positions = output_shape
    places = "\u00d7".join(map(str, positions))
    return [
        f"the classes are axis 1 of the output {_shown(output_shape)}: {count} classes at each of "
        f"{places} positions{_turned(output_shape)}"
    ]


def _shown(output_shape: Sequence[int]) -> str:
    return f"({', '.join(map(str, ('batch', *output_shape)))})"


def _turned(output_shape: Sequence[int]) -> str:
    """Advice if the last axis may hold the classes; empty if it cannot."""
    if len(output_shape) < 2 or output_shape[-1] < 2:
        return ""
    *positions, count = output_shape
    return (
        f"; if the last axis holds the classes, transpose the output to "
        f"{_shown((count, *positions))}, (batch, classes, \u2026)"
    )


def measured_output_shape(graph: Graph, output: str) -> tuple[int, ...]:
    """Shape of one row of the output, found by running two rows."""
    value = trial.run(trial.inference_form(graph.model), [trial.draw(graph, 2)])[0]
    if value.dtype != np.float32:
        raise refuse("/spec/output", f'output "{output}" is {value.dtype}, it must be float32')
    if value.ndim == 0 or value.shape[0] != 2:
        raise refuse(
            "/spec/output",
            f'axis 0 of "{output}" is not the batch: two rows in gave shape {list(value.shape)}; '
            "name a tensor with one row a sample",
        )
    return tuple(value.shape[1:])


def check_last_operator(graph: Graph, output: str, loss: str) -> None:
    """Raises GraphRefused if the loss would repeat the graph's last operator."""
    node = graph.producer(output)
    while node is not None and is_default(node, "Identity", "Squeeze", "Reshape", "Flatten"):
        node = graph.producer(node.input[0])
    if node is None or not is_default(node, *_APPLIED_AGAIN.get(loss, ())):
        return
    raise refuse(
        pointer("model", "graph", "node", node.name),
        f'node "{node.name}" ({node.op_type}) ends the graph and loss {loss} applies it again; '
        f'export the logits, or name the tensor before it as output: "{node.input[0]}"',
    )


def specification_problems(loss: str, optimizer: str) -> list[Problem]:
    """Unknown names of loss and optimizer."""
    problems = []
    if loss not in LOSSES:
        problems.append(Problem("/spec/loss", f'no loss "{loss}"; choose {", ".join(LOSSES)}'))
    if optimizer not in OPTIMIZERS:
        known = ", ".join(OPTIMIZERS)
        problems.append(Problem("/spec/optimizer", f'no optimizer "{optimizer}"; choose {known}'))
    return problems
