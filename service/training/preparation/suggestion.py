"""Suggests how to register a file, from its content: loss, classes, preprocessing."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from typing import Any

import onnx

from service.preprocess.text_inputs import IDS, KIND, ROLES
from service.training.errors import GraphRefused
from service.training.forward import own_loss, signature, trial
from service.training.forward.graph import FLOAT, Graph, is_default
from service.training.forward.signature import takes_ids
from service.training.protocol.messages.diagnosis import Suggested
from service.training.tasks import OWN, TASKS

PASS_ON = ("Identity", "Squeeze", "Reshape", "Flatten", "TopK", "ReduceMax", "Clip")
"""Operators that move, choose or bound scores, between these and the output."""
ENDS = {
    operator: (task.name, what)
    for task in reversed(TASKS.values())
    for operator, what in task.last_operators
}
"""Operators that a loss applies itself: it takes their input."""
CLASS_NAMES = ("classes", "class_names", "labels", "names", "id2label")
"""Metadata keys under which exporters write class names."""
LOSS_HINT = "loss"
LABEL_HINTS = ("label", "target", "truth", "y_true")
"""Parts of names; an output of one number a sample may also be what a model predicts."""
LEAST_PIXELS = 8
BYTES_FROM = 200.0
"""A model that divides its input by at least this much takes pixels from 0 to 255."""
CHANNELS = {1: "gray", 3: "rgb"}


def suggest(graph: Graph, chosen: str | None) -> Suggested | None:
    """None if no output of the graph could be trained. chosen: the output named in the request."""
    own, reason = next((pair for pair in _losses(graph) if pair[0] != chosen), (None, ""))
    output = chosen or _output(graph, own)
    preprocess = tuple(_texts(graph) or _pictures(graph))
    if own is not None:
        because = f'"{own}" is {reason}: a loss that the model computes itself'
        return Suggested(OWN, because, output, own, None, preprocess)
    if output is None:
        return None
    before, loss, because = _loss(graph, output)
    count = _row(graph, before)[:1] if TASKS[loss].has_classes else ()
    classes = _class_names(graph.model, count[0]) if count else None
    is_only = graph.outputs == [before]
    named = None if is_only else before
    return Suggested(loss, because, named, None, classes, preprocess)


def _losses(graph: Graph) -> Iterator[tuple[str, str]]:
    """Outputs that are losses of the model itself, and why: those of one number come first."""
    floats = [name for name in graph.outputs if graph.elem_type(name) in (None, FLOAT)]
    yield from ((name, "one number for all samples") for name in floats if graph.dims(name) == ())
    leading = {name: own_loss.inputs_of(graph.proto, name) for name in graph.outputs}
    for name in floats:
        if len(graph.dims(name) or ()) != 1:
            continue
        shared = set[str]().union(*(leading[other] for other in graph.outputs if other != name))
        labels = [value.name for value in graph.inputs if value.name in leading[name] - shared]
        if any(hint in label.lower() for label in labels for hint in LABEL_HINTS):
            yield name, f'one number a sample, computed from the label "{labels[0]}"'
        elif LOSS_HINT in name.lower():
            yield name, "one number a sample"


def _output(graph: Graph, own: str | None) -> str | None:
    """The only output besides a loss, else the one named logits, else the first."""
    names = [
        _tensor_of(graph, name)
        for name in graph.outputs
        if name != own and graph.elem_type(name) in (None, FLOAT)
    ]
    named = [name for name in names if "logit" in name.lower()]
    return next(iter([*named, *names]), None)


def _tensor_of(graph: Graph, name: str) -> str:
    """Itself, or the tensor that ZipMap, at the end of scikit-learn's classifiers, makes a map."""
    node = graph.producer(name)
    return name if node is None or node.op_type != "ZipMap" else node.input[0]


def _loss(graph: Graph, output: str) -> tuple[str, str, str]:
    """The tensor that the loss takes, the loss, and why."""
    if (of_tokens := _of_tokens(graph, output)) is not None:
        return output, *of_tokens
    node = graph.producer(output)
    while node is not None and (is_default(node, *PASS_ON) or _is_pair(graph, node)):
        node = graph.producer(node.input[-1 if node.op_type == "Concat" else 0])
    if node is not None and is_default(node, *ENDS):
        loss, what = ENDS[node.op_type]
        before = node.input[0]
        because = f'node "{node.name}" ({node.op_type}) gives {what}; the loss takes what it reads'
        return before, loss, f'{because}, "{before}"'
    row, inputs = _row(graph, output), _input_rows(graph)
    fitting = ((task.name, task.suggestion(row, inputs)) for task in TASKS.values())
    loss, why = next((name, why) for name, why in fitting if why is not None)
    return output, loss, f'"{output}" {why}'


def _of_tokens(graph: Graph, output: str) -> tuple[str, str] | None:
    """The loss and why, if the output has a row for each token of a text."""
    dims = graph.dims(output) or ()
    if not _texts(graph) or len(dims) != 3 or dims[1] != (graph.dims(IDS) or (0, 0))[1]:
        return None
    of_all = (dims[2] or 0) >= trial.table_size(graph, IDS)
    fits = (name for name, t in TASKS.items() if (t.continues_texts if of_all else t.takes_spans))
    what = "the next one, or of hidden ones if the model sees both sides" if of_all else "classes"
    return next(fits), f'"{output}" is {dims[2]} numbers a token: logits of {what}'


def _is_pair(graph: Graph, node: onnx.NodeProto) -> bool:
    """Does it put 1 - p before p, the probabilities of two classes?"""
    rest = graph.producer(node.input[0])
    return (
        is_default(node, "Concat")
        and rest is not None
        and is_default(rest, "Sub")
        and list(node.input) == [rest.output[0], rest.input[1]]
    )


def _row(graph: Graph, name: str) -> tuple[int, ...]:
    """Shape of one row of a tensor, empty if unknown."""
    dims = graph.dims(name)
    if dims is not None and None not in dims[1:]:
        return tuple(size or 0 for size in dims[1:])
    try:
        return signature.measured_output_shape(graph, name)
    except GraphRefused:
        return ()


def _input_rows(graph: Graph) -> list[tuple[int | None, ...]]:
    return [(graph.dims(value.name) or ())[1:] for value in graph.inputs]


def _class_names(model: onnx.ModelProto, count: int) -> tuple[str, ...] | None:
    """The class names in the file, if there is one for each class."""
    for entry in model.metadata_props:
        if entry.key.lower() in CLASS_NAMES:
            names = _listed(entry.value)
            if len(names) == len(set(names)) == count:
                return names
    return None


def _listed(text: str) -> tuple[str, ...]:
    """Names from JSON, from a Python literal as written by Ultralytics, or separated by commas."""
    value: Any = None
    for parse in (json.loads, ast.literal_eval):
        try:
            value = parse(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        break
    if isinstance(value, dict) and all(str(key).isdecimal() for key in value):
        value = [value[key] for key in sorted(value, key=int)]
    listed = value if isinstance(value, list | tuple) else text.split(",")
    names = [entry.strip() for entry in listed if isinstance(entry, str)]
    return tuple(names) if all(names) and len(names) == len(listed) else ()


def _texts(graph: Graph) -> list[dict[str, Any]]:
    """Of a model that takes token ids, and nothing that a text does not feed."""
    names = {value.name for value in graph.inputs}
    return [{"kind": KIND}] if takes_ids(graph) and names <= {IDS, *ROLES} else []


def _pictures(graph: Graph) -> list[dict[str, Any]]:
    """Image preprocessing for the only input, if its shape is that of an image."""
    (first, *others) = _input_rows(graph) or [()]
    if others or len(first) != 3 or graph.elem_type(graph.inputs[0].name) != FLOAT:
        return []
    for layout, channels, sides in (("nchw", first[0], first[1:]), ("nhwc", first[2], first[:2])):
        if channels in CHANNELS and all((side or 0) >= LEAST_PIXELS for side in sides):
            picture: dict[str, Any] = {"kind": "image", "channels": CHANNELS[channels]}
            if layout != "nchw":
                picture["layout"] = layout
            if _divides_by_bytes(graph):
                picture["scale"] = 1
            return [picture]
    return []


def _divides_by_bytes(graph: Graph) -> bool:
    """Does the model itself scale down inputs from 0 to 255?"""
    for node in graph.consumers(graph.inputs[0].name):
        values = [graph.array(name) for name in node.input[1:] if name in graph.initializers]
        sizes = [abs(float(each.ravel()[0])) for each in values if each is not None and each.size]
        if is_default(node, "Div") and any(size >= BYTES_FROM for size in sizes):
            return True
        if is_default(node, "Mul") and any(0 < size <= 1 / BYTES_FROM for size in sizes):
            return True
    return False
