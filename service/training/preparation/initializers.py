"""Lists initializers that may be parameters: which ones train, and why the others do not."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import onnx

from service.training.errors import GraphRefused
from service.training.forward import refusals, trainable, untrained
from service.training.forward.graph import FLOAT, Graph, dtype_name
from service.training.forward.weights import is_mask, is_statistic, is_weight, other_precisions
from service.training.graph.tensor import FLOATS
from service.training.protocol.messages.diagnosis import Initializer, WhyNot
from service.training.protocol.messages.preparation import Parameter, Prepare, Prepared

UNUSUAL = (
    "it stands where numbers of the program are as usual as weights; name it in trainable to "
    "train it"
)
UNNAMED = "no pattern of trainable matches it"
UNREACHED = "no gradient of the loss reaches it"


def initializers(graph: Graph, prepared: Prepared | None, wanted: Prepare) -> Iterator[Initializer]:
    """Possible parameters, in graph order, then those added to the graph, such as adapters."""
    parameters = {tensor.name: tensor for tensor in prepared.parameters} if prepared else {}
    chosen = _chosen(graph, wanted) if prepared is None else ()
    stuck = {parameter.name: parameter for parameter in untrained.find(graph)}
    for name, tensor in graph.initializers.items():
        known = parameters.pop(name, None)
        trains = name in chosen if known is None else known.trains
        if known is None and not trains and not _may_be_one(graph, tensor):
            continue
        why = None if trains else _why_not(graph, tensor, stuck.get(name), wanted)
        yield Initializer(
            name,
            dtype_name(tensor.data_type),
            tuple(tensor.dims),
            trains,
            known is not None and known.below,
            *(why or (None, None)),
        )
    yield from map(_added, parameters.values())


def _added(parameter: Parameter) -> Initializer:
    """An adapter, or a parameter in a subgraph."""
    name, shape, below = parameter.name, parameter.shape, parameter.below
    if parameter.trains:
        return Initializer(name, "float32", shape, True, below)
    why = "it lies inside of control flow, which has no gradient"
    return Initializer(name, "float32", shape, False, below, "no_gradient", why)


def _chosen(graph: Graph, wanted: Prepare) -> tuple[str, ...]:
    """Names that would train if there were no problems."""
    try:
        return trainable.select(graph, wanted.trainable)
    except GraphRefused:
        return ()


def _may_be_one(graph: Graph, tensor: onnx.TensorProto) -> bool:
    """Excludes the program's own numbers: shapes, axes, single constants."""
    if tensor.name in graph.constants or prod(tensor.dims) <= 1:
        return False
    is_whole = tensor.data_type not in FLOATS
    return len(tensor.dims) > 1 or not is_whole


def _why_not(
    graph: Graph, tensor: onnx.TensorProto, inert: untrained.Inert | None, wanted: Prepare
) -> tuple[WhyNot, str]:
    by_type = _by_type(graph, tensor)
    if by_type is not None:
        return by_type
    name = tensor.name
    if is_statistic(graph, name):
        return "statistic", "a running mean or variance, or a scale of labels: it has no gradient"
    if is_mask(graph, name):
        return "mask", "it holds the large numbers of a mask"
    if inert is not None and inert.is_stuck:
        node = inert.node
        return "no_gradient", f'node "{node.name}" ({node.op_type}) {refusals.remedy(node)}'
    if not is_weight(graph, name):
        return "constant", UNUSUAL
    is_named = wanted.trainable is not None or wanted.lora is not None
    return ("frozen", UNNAMED) if is_named else ("no_gradient", UNREACHED)


def _by_type(graph: Graph, tensor: onnx.TensorProto) -> tuple[WhyNot, str] | None:
    """Why tensors of this type do not train, None if they may."""
    dtype = dtype_name(tensor.data_type)
    if tensor.data_type in refusals.NARROW:
        beside = all(map(refusals.takes_adapters, graph.consumers(tensor.name)))
        return "quantized", f"it is {dtype}" + "; adapters (lora) can train beside it" * beside
    if tensor.data_type == FLOAT:
        return None
    if tensor.data_type in FLOATS or tensor.name in other_precisions(graph):
        return "precision", f"it is {dtype}; training needs float32: export after model.float()"
    return "integer", f"it is {dtype}, and has no gradient"
