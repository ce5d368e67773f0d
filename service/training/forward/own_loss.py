"""Handles a loss that the model computes itself: finds its input, and removes it from the model."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from service.training.errors import refuse
from service.training.forward import trial
from service.training.forward.graph import Graph
from service.training.graph.builder import STANDARD
from service.training.graph.flow import add_ints, count_rows, duplicate, needed_for, reads, refill
from service.training.graph.passes.simplify import prune
from storage.arrays import NDArray
from storage.errors import pointer
from storage.records.signatures import IGNORED, NO_TARGET, TargetSpec, TensorSpec

PLACE = "/spec/loss/output"
LABEL_DTYPES = ("float32", "int64")
BOXES, CLASSES, COUNT = "boxes", "classes", "count"
"""The inputs of a loss of boxes: (batch, most, 4), (batch, most), and if it is read (batch,)."""
JOINED = "hone.boxes"
"""The label that they are made of, (batch, most, 5); see service/preprocess/boxes/boxes.py."""


def inputs_of(graph: onnx.GraphProto, output: str, *, shapes: bool = True) -> set[str]:
    """Every tensor that leads to the output; apps send the inputs among them.

    shapes: also those of which only the shape is used.
    """
    nodes = [node for node in graph.node if shapes or node.op_type != "Shape"]
    return needed_for(nodes, [output])[1]


def read_labels(graph: onnx.GraphProto, output: str, classes: Sequence[str]) -> None:
    """Read no label for the output, and boxes or several numbers from one input. classes: names."""
    count_rows_by_inputs(graph, output)
    if classes:
        join_boxes(graph, output, len(classes))
        join_numbers(graph, output, classes)


def count_rows_by_inputs(graph: onnx.GraphProto, output: str) -> None:
    """Count the batch in an input that the output is computed from, and not in the label.

    PyTorch's dynamo exporter counts in the last input that has the batch's axis.
    """
    fixed = {tensor.name for tensor in graph.initializer}
    inputs = {value.name: _dims(value) for value in graph.input if value.name not in fixed}
    leading = inputs_of(graph, output, shapes=False)
    counted = next((name for name, dims in inputs.items() if name in leading and dims), None)
    nodes: list[onnx.NodeProto] = []
    for node in graph.node:
        is_shape = node.op_type == "Shape" and node.domain in STANDARD
        dims = inputs.get(node.input[0]) if is_shape else None
        if counted is None or not dims or node.input[0] in leading or None in dims[1:]:
            nodes.append(node)
        else:
            nodes += _shape(graph, node, dims, counted)
    refill(graph.node, nodes)


def _shape(
    graph: onnx.GraphProto, node: onnx.NodeProto, dims: Sequence[int | None], counted: str
) -> list[onnx.NodeProto]:
    """The result of Shape for an input of these sizes, with the rows of another one."""
    limits = {attribute.name: attribute.i for attribute in node.attribute}
    name = node.output[0]
    rows = f"{name}/rows"
    axes = range(len(dims))[slice(limits.get("start", 0), limits.get("end"))]
    parts = [
        rows if axis == 0 else add_ints(graph, f"{name}/{axis}", dims[axis] or 0) for axis in axes
    ]
    parts = parts or [add_ints(graph, f"{name}/none")]
    joined = onnx.helper.make_node("Concat", parts, [name], node.name, axis=0)
    return [*count_rows(graph, counted, rows), joined]


def join_boxes(graph: onnx.GraphProto, output: str, classes: int) -> None:
    """Make the inputs of a loss of boxes of one label, if there are such that the loss alone reads.

    A row of the label that is no box has a class below 0: 0 is what the loss reads there. classes:
    their number.
    """
    inputs = {value.name: value for value in graph.input if value.name in (BOXES, CLASSES, COUNT)}
    if not {BOXES, CLASSES} <= inputs.keys() or inputs_of(graph, output) & inputs.keys():
        return
    dims = {name: _dims(value)[1:] for name, value in inputs.items()}
    most = dims[BOXES][0] if dims[BOXES] else None
    if most is None or dims | {COUNT: []} != {BOXES: [most, 4], CLASSES: [most], COUNT: []}:
        return
    kinds = {name: value.type.tensor_type.elem_type for name, value in inputs.items()}
    label = duplicate(inputs[BOXES])
    label.name, label.type.tensor_type.shape.dim[2].dim_value = JOINED, 5
    _make_of(graph, label, inputs, *_taken_apart(kinds, most, classes))


def _taken_apart(
    kinds: Mapping[str, int], most: int, classes: int
) -> tuple[list[onnx.NodeProto], list[onnx.TensorProto]]:
    """What makes the inputs, of these element types, of the label, and its constants."""
    constants: dict[str, NDArray[Any]] = {
        "sides": np.arange(4),
        "class": np.array(4),
        "none": np.array(0, np.float32),
        "last": np.array(classes - 1, np.float32),
        "half": np.array(0.5, np.float32),
        "ones": np.ones(most, np.float32),
    }
    steps: list[tuple[str, tuple[str, ...], str, dict[str, Any]]] = [
        ("Gather", (JOINED, "sides"), "all", {"axis": 2}),
        ("Cast", ("all",), BOXES, {"to": kinds[BOXES]}),
        ("Gather", (JOINED, "class"), "kind", {"axis": 2}),
        ("Max", ("kind", "none"), "at_least", {}),
        ("Min", ("at_least", "last"), "at_most", {}),
        ("Cast", ("at_most",), CLASSES, {"to": kinds[CLASSES]}),
        ("Add", ("kind", "half"), "above", {}),
        ("Sign", ("above",), "sign", {}),
        ("Relu", ("sign",), "there", {}),
        ("MatMul", ("there", "ones"), "sum", {}),
        ("Cast", ("sum",), COUNT, {"to": kinds.get(COUNT, onnx.TensorProto.INT64)}),
    ]

    def name_of(result: str) -> str:
        return result if result in (JOINED, BOXES, CLASSES, COUNT) else f"{JOINED}/{result}"

    nodes = [
        onnx.helper.make_node(op, [*map(name_of, read)], [name_of(result)], **more)
        for op, read, result, more in steps
    ]
    tensors = [onnx.numpy_helper.from_array(v, name_of(name)) for name, v in constants.items()]
    return nodes, tensors


def join_numbers(graph: onnx.GraphProto, output: str, names: Sequence[str]) -> None:
    """Make inputs of these names of one label, if the loss alone reads them, a number a sample.

    What is not known is NaN in the label, and IGNORED in an input of integers, which PyTorch's
    losses of classes leave out.
    """
    inputs = {value.name: value for value in graph.input if value.name in names}
    if len(names) < 2 or inputs.keys() != {*names} or inputs_of(graph, output) & inputs.keys():
        return
    if any(_dims(value)[1:] not in ([], [1]) for value in inputs.values()):
        return
    node, nodes = onnx.helper.make_node, []
    constants: dict[str, Any] = {f"{trial.NUMBERS}/ignored": np.array(IGNORED, np.float32)}
    for place, name in enumerate(names):
        kind = inputs[name].type.tensor_type.elem_type
        at, number, unknown, known = (
            f"{trial.NUMBERS}/{name}/{part}" for part in ("at", "number", "unknown", "known")
        )
        constants[at] = np.array([place] if len(_dims(inputs[name])) > 1 else place)
        nodes.append(node("Gather", [trial.NUMBERS, at], [number], axis=1))
        if np.issubdtype(onnx.helper.tensor_dtype_to_np_dtype(kind), np.integer):
            nodes.append(node("IsNaN", [number], [unknown]))
            nodes.append(node("Where", [unknown, f"{trial.NUMBERS}/ignored", number], [known]))
            number = known
        nodes.append(node("Cast", [number], [name], to=kind))
    label = duplicate(inputs[names[0]])
    label.name, label.type.tensor_type.elem_type = trial.NUMBERS, onnx.TensorProto.FLOAT
    del label.type.tensor_type.shape.dim[1:]
    label.type.tensor_type.shape.dim.add().dim_value = len(names)
    tensors = [onnx.numpy_helper.from_array(value, name) for name, value in constants.items()]
    _make_of(graph, label, inputs, nodes, tensors)


def _make_of(
    graph: onnx.GraphProto,
    label: onnx.ValueInfoProto,
    fed: Collection[str],
    before: Sequence[onnx.NodeProto],
    constants: Sequence[onnx.TensorProto],
) -> None:
    """Read the label in place of the inputs `fed`, which these nodes make of it."""
    graph.initializer.extend(constants)
    refill(graph.node, [*before, *graph.node])
    refill(graph.input, [*(value for value in graph.input if value.name not in fed), label])


def _dims(value: onnx.ValueInfoProto) -> list[int | None]:
    shape = value.type.tensor_type.shape
    return [dim.dim_value if dim.HasField("dim_value") else None for dim in shape.dim]


def target_spec(specs: Sequence[TensorSpec], classes: tuple[str, ...] | None) -> TargetSpec:
    """The label's description. specs: the inputs that only the loss reads.

    Raises GraphRefused.
    """
    if [spec.name for spec in specs] == [JOINED]:
        assert classes is not None
        shape = specs[0].shape
        return TargetSpec(JOINED, "float32", shape, classes=classes, box_classes=len(classes))
    if [spec.name for spec in specs] == [trial.NUMBERS]:
        shape = specs[0].shape
        return TargetSpec(trial.NUMBERS, "float32", shape, classes=classes, may_ignore=True)
    if len(specs) > 1:
        shown = ", ".join(f'"{spec.name}"' for spec in specs)
        raise refuse(
            PLACE,
            f"{len(specs)} inputs are read by the loss alone: {shown}; name them in spec.classes"
            " if each is one number a sample, or export them as one input, which the model takes"
            f" apart, or for boxes on photos as {BOXES}, {CLASSES} and {COUNT}, with the names of"
            " classes in the spec",
        )
    if classes is not None and (not specs or specs[0].dtype != "int64" or specs[0].shape):
        raise refuse("/spec/classes", "the label is no class index, so leave the classes out")
    if not specs:
        return NO_TARGET
    spec = specs[0]
    if spec.dtype not in LABEL_DTYPES:
        raise refuse(
            pointer("model", "graph", "input", spec.name),
            f'input "{spec.name}", the label, is {spec.dtype}; labels are float32 or int64: cast it'
            " inside the model",
        )
    count = None if classes is None else len(classes)
    return TargetSpec(spec.name, spec.dtype, spec.shape, count, classes)


def check_shape(graph: Graph, loss: str) -> bool:
    """Whether the loss is one number per sample, determined by running two rows and three.

    Raises GraphRefused if it has neither that nor is one number.
    """
    model = trial.inference_form(graph.model)
    shapes = [
        np.shape(results[loss])
        for results in trial.run_named(model, [trial.draw(graph, rows) for rows in (2, 3)])
    ]
    if shapes not in ([(), ()], [(2,), (3,)]):
        raise refuse(
            PLACE,
            f'"{loss}" is no scalar: two samples give it the shape {list(shapes[0])}; a loss is one'
            " number without axes, the mean over the batch, or one number for each sample",
        )
    return shapes[0] != ()


def only(
    model: onnx.ModelProto, outputs: Iterable[str], *, leading_to: Iterable[str] = ()
) -> onnx.ModelProto:
    """A copy with only these outputs, and the nodes that lead to them. leading_to: also kept."""
    copy = duplicate(model)
    graph, names = copy.graph, set(outputs)
    refill(graph.output, [value for value in graph.output if value.name in names])
    prune(graph, [*names, *leading_to])
    read = {name for node in graph.node for name in reads(node)}
    refill(graph.input, [value for value in graph.input if value.name in read])
    return copy


def as_apps_get_it(
    model: onnx.ModelProto, loss: str, target: str, *, output: str
) -> onnx.ModelProto:
    """A copy without the loss, the label, and other outputs that are computed from either.

    target: the name of the input that is the label, empty if there is none. output: may be an inner
    tensor; what leads to it stays.
    """
    names = [
        value.name
        for value in model.graph.output
        if not {loss, target} & inputs_of(model.graph, value.name)
    ]
    return only(model, names, leading_to=[output])
