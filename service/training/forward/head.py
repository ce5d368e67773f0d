"""Finds a classifier's last layer, with one row of weights per class, and changes its rows."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy

import numpy as np
import onnx
from msgspec.structs import replace
from numpy.typing import NDArray

from service.training.engines.manifest import ClassHead, carry_over
from service.training.errors import GraphRefused, refuse
from service.training.forward import trial
from service.training.forward.graph import (
    FLOAT,
    Graph,
    is_default,
)
from service.training.forward.normalize import normalize
from service.training.graph.flow import refill
from service.training.graph.node import attributes_of

PLACE = "/model/graph/output"
TOLERANCE = 1e-4
"""Maximum difference of an old class's logits, as a share of 1 + the largest of them."""
POOLS = ("Identity", "Flatten", "Squeeze", "Reshape", "GlobalAveragePool", "ReduceMean", "Dropout")
"""Operators that may follow the layer: none mixes classes if axis 1 stays the class axis."""
REMEDY = "register a model that has the classes you want under another name, and send the samples"
ROWS = (1, 3)


def describe(
    model: onnx.ModelProto, output: str, ids: Sequence[int], known: Sequence[int]
) -> ClassHead:
    """The head's description for an engine. known: ids of the classes in the upload.

    Raises GraphRefused if there is none whose rows can change.
    """
    layer, _ = find(Graph(deepcopy(model)), output, len(ids))
    fresh = tuple(class_id for class_id in ids if class_id not in known)
    return replace(layer, classes=tuple(ids), fresh=fresh)


def change(
    uploaded: onnx.ModelProto,
    output: str | None,
    ids: Sequence[int],
    row_ids: Sequence[int] | None = None,
) -> tuple[onnx.ModelProto, Sequence[int]]:
    """The model with a row for each of these classes: its own by id, a neutral one for others.

    row_ids: the ids of the upload's classes, by index; None if they are 0, 1, … Also returns these.
    Raises GraphRefused with the blocking operator, if an old class's logits would change, or if
    these are not as many as the upload has.
    """
    name = output or uploaded.graph.output[0].name
    try:
        if uploaded.functions:
            raise refuse(PLACE, "the head is inside a function")
        return _changed(uploaded, name, ids, row_ids)
    except GraphRefused:
        # Exporters merge equal initializers, and hide layers in functions.
        copy = deepcopy(uploaded)
        return _changed(normalize(copy, []).model, name, ids, row_ids)


def _changed(
    model: onnx.ModelProto, output: str, ids: Sequence[int], row_ids: Sequence[int] | None
) -> tuple[onnx.ModelProto, Sequence[int]]:
    copy = deepcopy(model)
    graph = Graph(copy)
    known = (graph.dims(output) or (None, None))[1]
    if known is None:
        raise refuse(PLACE, f'the number of classes in "{output}" is not fixed; {REMEDY}')
    then = range(known) if row_ids is None else row_ids
    if len(then) != known:
        detail = f'"{output}" gives {known} classes, and {len(then)} are named; name each of them'
        raise refuse("/spec/classes", detail)
    layer, shapes = find(graph, output, known)
    downstream = graph.flow([layer.weight]) - {layer.weight}
    for name, axis in layer.axes.items():
        rows = onnx.numpy_helper.to_array(graph.initializers[name])
        _set(graph, name, carry_over(rows, axis, then=then, now=ids))
    for name in shapes:
        shape = onnx.numpy_helper.to_array(graph.initializers[name])
        _set(graph, name, np.where(shape == known, len(ids), shape).astype(np.int64))
    for value in copy.graph.output:
        if value.name == output:
            value.type.tensor_type.shape.dim[1].dim_value = len(ids)
        elif value.name in downstream:
            value.type.tensor_type.ClearField("shape")
    _keep_records(copy.graph, model.graph.value_info)
    pairs = [(list(then).index(label), new) for new, label in enumerate(ids) if label in then]
    _compare(model, copy, output, pairs)
    return onnx.shape_inference.infer_shapes(copy), then


def _keep_records(graph: onnx.GraphProto, values: Sequence[onnx.ValueInfoProto]) -> None:
    """Forget all shapes, but not PyTorch's records of which initializers were parameters."""
    names = {tensor.name for tensor in graph.initializer}
    refill(graph.value_info, [value for value in values if value.name in names])
    for value in graph.value_info:
        value.type.tensor_type.ClearField("shape")


def find(graph: Graph, output: str, classes: int) -> tuple[ClassHead, list[str]]:
    """The layer that computes the logits, without ids of classes, and the shapes of reshapes behind
    it that contain the number of classes. Raises GraphRefused if it cannot grow.
    """
    name, shapes = output, list[str]()
    node = graph.producer(name)
    while node is not None and is_default(node, *POOLS):
        if is_default(node, "Reshape"):
            shapes += _naming(graph, node.input[1], classes)
        name = node.input[0]
        _require_classes(graph, name, classes)
        node = graph.producer(name)
    bias = None
    if node is not None and is_default(node, "Add"):
        bias = next((read for read in node.input if read in graph.initializers), None)
        name = next((read for read in node.input if read != bias), "")
        node = graph.producer(name) if bias is not None else node
    if node is None or not is_default(node, "Gemm", "MatMul", "Conv"):
        made_by = "an input" if node is None else f"{node.op_type} {node.name!r}"
        raise refuse(
            PLACE,
            f'"{name}" is made by {made_by}; classes can be changed where the last layer is a Gemm,'
            f" a MatMul with an Add, or a Conv with a kernel of 1; {REMEDY}",
        )
    return _layer(graph, node, bias, classes), shapes


def _layer(graph: Graph, node: onnx.NodeProto, bias: str | None, classes: int) -> ClassHead:
    is_conv = is_default(node, "Conv")
    axis = 0 if is_conv or attributes_of(node).get("transB", 0) else 1
    if bias is None and len(node.input) > 2:
        bias = node.input[2] or None
    weight = node.input[1]
    maker = graph.producer(weight)
    while maker is not None and is_default(maker, "Transpose", "Identity"):
        if is_default(maker, "Transpose"):
            axis = 1 - axis
        weight = maker.input[0]
        maker = graph.producer(weight)
    layer = ClassHead(weight, axis, bias, node.input[0], 1 if is_conv else -1, ())
    fault = _fault(graph, node, layer, classes)
    if fault is not None:
        raise refuse(PLACE, f"the last layer, {node.op_type} {node.name!r}, {fault}; {REMEDY}")
    return layer


def _fault(graph: Graph, node: onnx.NodeProto, layer: ClassHead, classes: int) -> str | None:
    """Why the layer's rows cannot change, None if they can."""
    for name in filter(None, (layer.weight, layer.bias)):
        if graph.elem_type(name) != FLOAT or name not in graph.initializers:
            return f'reads "{name}", which is no float32 initializer'
        if len(graph.consumers(name)) > 1 or name in graph.outputs:
            return f'shares "{name}" with other parts of the model'
    dims = graph.dims(layer.weight) or ()
    kernel = dims[2:] if is_default(node, "Conv") else ()
    if len(dims) - len(kernel) != 2 or dims[layer.axis] != classes:
        return f'has "{layer.weight}" of shape {list(dims)}, which is not a row for each class'
    if layer.bias is not None and (graph.dims(layer.bias) or (0,))[-1] != classes:
        return f'has "{layer.bias}", which is not one number for each class'
    if (
        set(kernel) - {1}
        or attributes_of(node).get("group", 1) != 1
        or attributes_of(node).get("transA", 0)
    ):
        return "has a kernel larger than 1, groups, or a transposed input"
    return None


def _require_classes(graph: Graph, name: str, classes: int) -> None:
    dims = graph.dims(name)
    if dims is None or len(dims) < 2 or dims[1] != classes:
        raise refuse(
            PLACE, f'axis 1 of "{name}", behind the last layer, is not that of classes; {REMEDY}'
        )


def _naming(graph: Graph, name: str, classes: int) -> list[str]:
    """The shape of a reshape, if it contains the number of classes. Raises GraphRefused."""
    shape = graph.array(name)
    if shape is None:
        raise refuse(PLACE, f'the shape "{name}" is computed by the model; {REMEDY}')
    named = int((shape == classes).sum())
    if named > 1 or (named and len(graph.consumers(name)) > 1):
        raise refuse(PLACE, f'the shape "{name}" names the number of classes twice; {REMEDY}')
    return [name] if named else []


def _set(graph: Graph, name: str, value: NDArray[np.generic]) -> None:
    graph.initializers[name].CopyFrom(
        onnx.numpy_helper.from_array(np.ascontiguousarray(value), name)
    )
    for listed in graph.proto.input:  # older files list initializers there too
        if listed.name == name:
            kind = onnx.helper.np_dtype_to_tensor_dtype(value.dtype)
            listed.CopyFrom(onnx.helper.make_tensor_value_info(name, kind, value.shape))


def _compare(
    old: onnx.ModelProto, new: onnx.ModelProto, output: str, pairs: Sequence[tuple[int, int]]
) -> None:
    """Raises GraphRefused unless the logits of the remaining classes are unchanged."""
    then, now = (list(side) for side in zip(*pairs, strict=True)) if pairs else ([], [])
    graph = Graph(_giving(old, output))
    fixed = (graph.dims(graph.inputs[0].name) or (None,))[0]
    for rows in (fixed,) if fixed else ROWS:
        feeds = trial.draw(graph, rows)
        ((before,), (after,)) = (trial.run(_giving(model, output), [feeds]) for model in (old, new))
        expected = before.take(then, axis=1)
        limit = TOLERANCE * (1 + float(np.abs(expected).max(initial=0.0)))
        if not np.allclose(after.take(now, axis=1), expected, rtol=0.0, atol=limit):
            raise refuse(PLACE, f"the logits of classes that stay would change; {REMEDY}")


def _giving(model: onnx.ModelProto, output: str) -> onnx.ModelProto:
    """An inference copy with this as its only output."""
    copy = trial.inference_form(model)
    refill(copy.graph.output, [onnx.helper.make_empty_tensor_value_info(output)])
    del copy.graph.value_info[:]
    return copy
