"""Makes a batch axis with a fixed size variable, and verifies that this is valid."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from numpy.typing import NDArray

from service.training.errors import GraphRefused, pointer, refuse
from service.training.forward import trial
from service.training.forward.graph import Graph, is_default
from service.training.forward.weights import is_weight
from service.training.graph.flow import reads

BATCH = "batch"
BROADCASTING = ("Add", "And", "Cast", "Div", "Equal", "Gather", "Mul", "Or", "Sub", "Where")
"""Operators that broadcast one row to all rows. Their results are compared in the end."""


def release(graph: Graph, notes: list[str]) -> None:
    """Name axis 0 of every input `batch`; if it was fixed, compare many rows with single ones.

    Raises GraphRefused if the graph contains the size.
    """
    fixed = {value.name: dims[0] for value in graph.inputs if (dims := graph.dims(value.name))}
    sizes = {size for size in fixed.values() if size is not None}
    if not sizes:
        _name_axis(graph)
        return
    if len(sizes) > 1:
        raise _refused(graph, f"the inputs have fixed batch sizes {sorted(sizes)}")
    size = sizes.pop()
    original = onnx.ModelProto()
    original.CopyFrom(graph.model)
    _name_axis(graph)
    _drop_zero_states(graph)
    _broadcast_equal_rows(graph, size)
    _free_shapes(graph, original, size)
    _prove(graph, original, size)
    notes.append(f"the batch axis, exported with the fixed size {size}, was made dynamic")


def _name_axis(graph: Graph) -> None:
    for value in graph.inputs:
        shape = value.type.tensor_type.shape
        if shape.dim:
            shape.dim[0].Clear()
            shape.dim[0].dim_param = BATCH
    for output in graph.proto.output:
        output.type.tensor_type.ClearField("shape")
    graph.refresh()


def _free_shapes(graph: Graph, original: onnx.ModelProto, size: int) -> None:
    """Infer the batch in every Reshape to a constant shape that contains its size.

    A run determines the axis: by the effect of one changed row.
    """
    reshapes = [
        node
        for node in graph.proto.node
        if is_default(node, "Reshape") and graph.array(node.input[1]) is not None
    ]
    for node, shape in zip(reshapes, _freed(graph, original, reshapes, size), strict=True):
        if shape is not None:
            name = f"{node.name}/shape"
            node.input[1] = graph.add_initializer(name, np.array(shape, np.int64))
    graph.refresh()


def _freed(
    graph: Graph, original: onnx.ModelProto, reshapes: Sequence[onnx.NodeProto], size: int
) -> list[list[int] | None]:
    """The target shape, with -1 for the axis of the batch; None if there is none."""
    model = trial.inference_form(original)
    del model.graph.output[:]
    model.graph.output.extend(
        onnx.helper.make_empty_tensor_value_info(node.output[0]) for node in reshapes
    )
    one, other = (trial.draw(graph, size, seed=seed) for seed in (0, 1))
    changed = {name: np.concatenate([other[name][:1], one[name][1:]]) for name in one}
    if not reshapes:
        return []
    before, after = trial.run_all(model, [one, changed])
    return [_without_batch(a != b, size) for a, b in zip(before, after, strict=True)]


def _without_batch(moved: NDArray[np.bool_], size: int) -> list[int] | None:
    """moved: which numbers change with one of the batch's rows."""
    for axis in sorted(range(moved.ndim), key=lambda axis: moved.shape[axis] != size):
        touched = moved.any(axis=tuple(a for a in range(moved.ndim) if a != axis)).sum()
        if touched and touched * size == moved.shape[axis]:
            return [-1 if a == axis else length for a, length in enumerate(moved.shape)]
    return None


def _broadcast_equal_rows(graph: Graph, size: int) -> None:
    """Keep one row of constants that are equal for each row of the batch, such as positions."""
    for tensor in graph.proto.initializer:
        value = graph.array(tensor.name)
        if value is None or value.ndim < 2 or len(value) != size or is_weight(graph, tensor.name):
            continue
        if np.all(value == value[:1]) and all(
            is_default(node, *BROADCASTING) for node in graph.consumers(tensor.name)
        ):
            tensor.CopyFrom(onnx.numpy_helper.from_array(value[:1].copy(), tensor.name))
    graph.refresh()


def _drop_zero_states(graph: Graph) -> None:
    """Drop initial states of zeros, which have the size of the batch and are the default."""
    for node in graph.proto.node:
        if is_default(node, "LSTM", "GRU", "RNN"):
            for slot in range(5, min(len(node.input), 7)):
                if _is_zero(graph, node.input[slot]):
                    node.input[slot] = ""
    needed, kept = set(graph.outputs), []
    for node in reversed(graph.proto.node):
        if needed.intersection(node.output):
            needed.update(reads(node))
            kept.append(node)
    graph.set_nodes(reversed(kept))


def _is_zero(graph: Graph, name: str) -> bool:
    maker = graph.producer(name)
    if maker is not None and is_default(maker, "Expand"):
        name = maker.input[0]
    value = graph.array(name)
    return value is not None and not np.any(value)


def _prove(graph: Graph, original: onnx.ModelProto, size: int) -> None:
    """Rows must not depend on their number: two and three batches at once, and one by one."""
    free = trial.inference_form(graph.model)
    single = trial.inference_form(original)
    for batches in (2, 3):
        feeds = trial.draw(graph, size * batches, seed=batches)
        parts = [
            {name: value[size * i : size * (i + 1)] for name, value in feeds.items()}
            for i in range(batches)
        ]
        try:
            whole = trial.run(free, [feeds])[0]
        except GraphRefused as error:
            raise _refused(graph, error.problems[0].detail) from None
        expected = np.concatenate(trial.run(single, parts))
        if whole.shape != expected.shape or not np.allclose(
            whole, expected, 1e-4, 1e-5, equal_nan=True
        ):
            raise _refused(graph, "rows change with the number of rows beside them")


def _refused(graph: Graph, reason: str) -> GraphRefused:
    name = graph.inputs[0].name if graph.inputs else ""
    return refuse(
        pointer("model", "graph", "input", name, "shape", 0),
        f'axis 0 of input "{name}" is fixed and cannot be freed ({reason}); export with a dynamic '
        "batch axis (dynamic_axes / dynamic_shapes)",
    )
