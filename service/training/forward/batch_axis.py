"""Makes a batch axis with a fixed size variable, and verifies that this is valid."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy

import numpy as np
import onnx
from numpy.typing import NDArray

from service.training.errors import GraphRefused, refuse
from service.training.forward import trial
from service.training.forward.graph import BATCH, Graph, is_default
from service.training.forward.weights import is_weight
from service.training.graph.flow import count_rows, needed_for, refill
from service.training.graph.node import attributes_of
from storage.errors import pointer

BROADCASTING = ("Add", "And", "Cast", "Div", "Equal", "Gather", "Mul", "Or", "Sub", "Where")
"""Operators that broadcast one row to all rows. Their results are compared in the end."""

DRAWS = 9
"""So many that of integers below 2 hardly any is equal in all."""


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
    original = deepcopy(graph.model)
    _name_axis(graph)
    _drop_zero_states(graph)
    _broadcast_equal_rows(graph, size)
    _free_shapes(graph, original, size)
    try:
        _prove(graph, original, size)
    except GraphRefused:
        _repeat_fed_rows(graph, size)
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

    Runs determine the axis: by the effect of a changed first row.
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
    if not reshapes:
        return []
    model = trial.inference_form(original)
    ends = [onnx.helper.make_empty_tensor_value_info(node.output[0]) for node in reshapes]
    refill(model.graph.output, ends)
    one, *others = (trial.draw(graph, size, seed=seed) for seed in range(DRAWS))
    feeds = [{n: np.concatenate([new[n][:1], one[n][1:]]) for n in one} for new in others]
    before, *after = trial.run_all(model, [one, *feeds])
    moved = (
        np.any([new != old for new in sizes], 0) for old, *sizes in zip(before, *after, strict=True)
    )
    return [_without_batch(shape, size) for shape in moved]


def _without_batch(moved: NDArray[np.bool_], size: int) -> list[int] | None:
    """moved: which numbers change with the batch's first row."""
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
    kept, _ = needed_for(graph.proto.node, graph.outputs)
    graph.set_nodes(kept)


def _repeat_fed_rows(graph: Graph, size: int) -> None:
    """Repeat for each row that is fed what the exporter repeated `size` times.

    These are constants that are equal for each row, and the sizes of Expand and Resize.
    """
    rows = graph.fresh("hone/rows")
    nodes = count_rows(graph.proto, graph.inputs[0].name, rows)
    for name, tensor in [*graph.initializers.items()]:
        axis = _repeated_axis(graph, name, size)
        if axis is not None:
            value, repeated = onnx.numpy_helper.to_array(tensor), graph.fresh(f"{name}/rows")
            tensor.CopyFrom(onnx.numpy_helper.from_array(value.take([0], axis), name))
            for node in graph.consumers(name):
                node.input[:] = [repeated if read == name else read for read in node.input]
            sizes = _sizes(graph, repeated, {axis: rows}, value.shape)
            pair = [name, sizes.output[0]]
            nodes += [sizes, onnx.helper.make_node("Expand", pair, [repeated], repeated)]
    for node in graph.proto.node:
        nodes += _with_fed_rows(graph, node, size, rows)
    graph.set_nodes(nodes)


def _repeated_axis(graph: Graph, name: str, size: int) -> int | None:
    """The axis of the batch's size along which all values are equal, None if there is none."""
    axes = {_axis_of_rows(graph, node, name) for node in graph.consumers(name)}
    axis = axes.pop() if len(axes) == 1 else None
    value = graph.array(name)
    if axis is None or value is None or value.ndim < 2 or value.shape[axis] != size:
        return None
    return axis if np.all(value == value.take([0], axis)) else None


def _axis_of_rows(graph: Graph, node: onnx.NodeProto, name: str) -> int | None:
    """The axis that must be the batch's in a tensor that the node reads; None if none must be."""
    if is_default(node, "LSTM", "GRU", "RNN") and name in node.input[5:7]:
        return 1
    joined = is_default(node, "Concat") and attributes_of(node).get("axis", 0) != 0
    if (joined and not graph.fed.isdisjoint(node.input)) or not is_weight(graph, name):
        return 0 if name in node.input else None
    return None


def _with_fed_rows(
    graph: Graph, node: onnx.NodeProto, size: int, rows: str
) -> list[onnx.NodeProto]:
    """The node; sizes of an Expand or Resize follow the rows that are fed."""
    place = {"Expand": 1, "Resize": 3}.get(node.op_type, len(node.input))
    target = graph.array(node.input[place]) if place < len(node.input) else None
    dims = graph.dims(node.input[0]) if target is not None else None
    if target is None or dims is None or len(dims) > len(target):
        return [node]
    own = (*[1] * (len(target) - len(dims)), *dims)
    sizes = [1 if known is None else int(n) for n, known in zip(target, own, strict=True)]
    open_axes = [i for i, n in enumerate(target) if n == size and own[i] in (None, 1)]
    sizes_node = _sizes(graph, node.output[0], dict.fromkeys(open_axes[:1], rows), sizes)
    node.input[place] = sizes_node.output[0]
    return [sizes_node, node]


def _sizes(
    graph: Graph, result: str, computed: dict[int, str], sizes: Sequence[int]
) -> onnx.NodeProto:
    """Joins the sizes of a result. computed: by axis, the tensors that hold some of them."""
    parts = [
        computed.get(axis) or graph.add_initializer(f"{result}/size", np.array([length]))
        for axis, length in enumerate(sizes)
    ]
    name = graph.fresh(f"{result}/sizes")
    return onnx.helper.make_node("Concat", parts, [name], name, axis=0)


def _is_zero(graph: Graph, name: str) -> bool:
    name = graph.origin(name, "Expand")
    value = graph.array(name)
    return value is not None and not np.any(value) and not is_weight(graph, name)


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
