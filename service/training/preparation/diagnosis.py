"""Carries out the task `Diagnose`: a file's contents, and which of them would train."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import onnx
from msgspec.structs import replace

from service.training.errors import GraphRefused
from service.training.forward import head
from service.training.forward.graph import FLOAT, Graph, dtype_name
from service.training.forward.load import load
from service.training.forward.normalize import normalize, select_output
from service.training.preparation.initializers import initializers
from service.training.preparation.prepare import fix_open_axes, prepare
from service.training.preparation.suggestion import suggest
from service.training.protocol.messages.diagnosis import (
    Diagnose,
    Diagnosed,
    HeadInfo,
    Initializer,
    RefusedNode,
    Suggested,
    TensorInfo,
)
from service.training.protocol.messages.preparation import Prepare, Prepared, Refused
from service.training.tasks import FITS_ALL
from storage.errors import Problem, pointer


def diagnose(task: Diagnose) -> Diagnosed | Refused:
    """Refused if the file cannot be read; other problems are part of the diagnosis."""
    wanted = task.prepare
    if wanted.form == "artifacts":
        return _of_artifacts(wanted)
    try:
        source = Path(fix_open_axes(wanted, []).source)
        uploaded, graph = load(source), None
    except GraphRefused as refused:
        return Refused(refused.detail, refused.problems)
    try:
        graph = normalize(load(source), [])
        suggested = suggest(graph, wanted.output)
    except GraphRefused as refused:
        return _told(uploaded, graph, None, Refused(refused.detail, refused.problems), wanted)
    wanted = _filled(wanted, suggested)
    return _told(uploaded, graph, suggested, prepare(wanted), wanted)


def _filled(wanted: Prepare, suggested: Suggested | None) -> Prepare:
    """With the suggested loss and its output, if none was named."""
    if wanted.loss:
        return wanted
    if suggested is None:
        return replace(wanted, loss=FITS_ALL)
    return replace(
        wanted,
        loss=suggested.loss,
        loss_output=suggested.loss_output,
        output=wanted.output or suggested.output,
        classes=wanted.classes or suggested.classes,
    )


def _told(
    uploaded: onnx.ModelProto,
    graph: Graph | None,
    suggested: Suggested | None,
    answer: Prepared | Refused,
    wanted: Prepare,
) -> Diagnosed:
    prepared = answer if isinstance(answer, Prepared) else None
    problems = () if isinstance(answer, Prepared) else answer.problems
    raw = Graph(uploaded)
    described = raw if graph is None else graph
    return Diagnosed(
        loss=wanted.loss,
        opset=raw.opset,
        producer=" ".join(filter(None, (uploaded.producer_name, uploaded.producer_version))),
        operators=len(uploaded.graph.node),
        inputs=tuple(_tensor(raw, value.name) for value in raw.inputs),
        outputs=tuple(_tensor(raw, name) for name in raw.outputs),
        initializers=tuple(initializers(described, prepared, wanted)),
        problems=problems,
        prepared=prepared,
        suggested=suggested,
        head=None if prepared is None else _head(prepared),
        refused=tuple(_refused(described, problems)),
    )


def _of_artifacts(wanted: Prepare) -> Diagnosed | Refused:
    """The diagnosis of artifacts, which leave nothing to choose."""
    prepared = prepare(wanted)
    if isinstance(prepared, Refused):
        return prepared
    graph = Graph(onnx.load(prepared.base_model, load_external_data=False))
    return Diagnosed(
        loss=wanted.loss,
        opset=None,
        producer="",
        operators=len(graph.proto.node),
        inputs=tuple(
            TensorInfo(spec.name, spec.dtype, spec.shape) for spec in prepared.signature.inputs
        ),
        outputs=tuple(_tensor(graph, name) for name in graph.outputs),
        initializers=tuple(
            Initializer(
                name, dtype_name(tensor.data_type), tuple(tensor.dims), name in prepared.trainable
            )
            for name, tensor in graph.initializers.items()
            if tensor.data_type == FLOAT
        ),
        problems=(),
        prepared=prepared,
        head=_head(prepared),
    )


def _tensor(graph: Graph, name: str) -> TensorInfo:
    dims = graph.dims(name)
    return TensorInfo(name, dtype_name(graph.elem_type(name)), None if dims is None else dims[1:])


def _head(prepared: Prepared) -> HeadInfo | None:
    """The layer whose rows are the classes, None if there is none whose rows can change."""
    classes = prepared.signature.target.num_classes
    if classes is None:
        return None
    model = onnx.load(prepared.base_model, load_external_data=False)
    try:
        graph = normalize(model, [])
        select_output(graph, prepared.output, [])
        layer, _ = head.find(graph, prepared.output, classes)
    except GraphRefused:
        return None
    return HeadInfo(layer.weight, layer.bias, layer.features, classes)


def _refused(graph: Graph, problems: Sequence[Problem]) -> Iterator[RefusedNode]:
    """The nodes that have problems."""
    nodes = {pointer("model", "graph", "node", node.name): node for node in graph.proto.node}
    for problem in problems:
        node = nodes.get(problem.pointer)
        if node is not None:
            yield RefusedNode(node.name, node.op_type, problem.detail)
