"""The normal form of an upload: what it computes, with nothing left to open or to look up."""

from __future__ import annotations

from collections.abc import Sequence

import onnx
from onnx import inliner

from service.training.errors import refuse
from service.training.forward.graph import Graph, ints_attribute, is_default
from service.training.forward.origins import recorded
from service.training.forward.restore import restore
from service.training.graph.flow import reads
from service.training.graph.passes.canonical import (
    convert,
    drop_listed_initializers,
    lift_constants,
    name_nodes,
    opset,
    stamp,
)
from service.training.graph.passes.folding import fold

OLDEST, NEWEST = 13, 21
"""Since 13, Softmax, ReduceSum, Squeeze and Split are those of today."""


def normalize(model: onnx.ModelProto, notes: list[str]) -> Graph:
    """Functions inlined, opset and IR within bounds, constants folded, parameters as they were.

    Raises GraphRefused if the opset cannot be converted.
    """
    restore(model)
    told = recorded(model)
    if model.functions:
        model = inliner.inline_local_functions(model)
        notes.append("the model's local functions were inlined")
    drop_listed_initializers(model)
    version = opset(model)
    model = convert(model, OLDEST, NEWEST)
    if opset(model) != version:
        notes.append(f"opset {version} was converted to {opset(model)}")
    del model.training_info[:]
    name_nodes(model)
    stamp(model)
    parameters = {name for name, is_parameter in told.items() if is_parameter}
    constants = (told.keys() - parameters) | lift_constants(model)
    constants |= fold(model, constants, keep=parameters)
    graph = Graph(model)
    graph.parameters, graph.constants = parameters, constants
    spell_out(graph)
    return graph


def select_output(graph: Graph, output: str | None, notes: list[str]) -> str:
    """Make the chosen tensor the only output and drop what does not lead to it.

    output: the name of any float tensor, None for the only output of the graph.
    Raises GraphRefused if it does not exist, or if there are several to choose from.
    """
    if output is None:
        if len(graph.outputs) != 1:
            raise refuse(
                "/spec/output",
                f"the model has {len(graph.outputs)} outputs; name the one to train and measure "
                f"as output: {', '.join(graph.outputs)}",
            )
        output = graph.outputs[0]
    if graph.producer(output) is None:
        names = ", ".join(graph.outputs)
        raise refuse(
            "/spec/output", f'no node of the graph makes "{output}"; the outputs are: {names}'
        )
    kind = graph.elem_type(output)
    if kind is not None and kind != onnx.TensorProto.FLOAT:
        dtype = onnx.TensorProto.DataType.Name(kind).lower()
        raise refuse(
            "/spec/output", f'"{output}" is {dtype}; name a float32 tensor, the logits for example'
        )
    _cut(graph, output, notes)
    return output


def _cut(graph: Graph, output: str, notes: list[str]) -> None:
    needed, kept = {output}, []
    for node in reversed(graph.proto.node):
        if needed.intersection(node.output):
            kept.append(node)
            needed.update(reads(node))
    unread = [v.name for v in graph.inputs if v.name not in needed]
    if unread:
        notes.append(f'inputs that "{output}" does not depend on were dropped: {", ".join(unread)}')
    dims = graph.dims(output)
    initializers = [t for t in graph.proto.initializer if t.name in needed]
    inputs = [v for v in graph.inputs if v.name in needed]
    for field, values in ((graph.proto.initializer, initializers), (graph.proto.input, inputs)):
        copies = [type(value).FromString(value.SerializeToString()) for value in values]
        del field[:]
        field.extend(copies)
    del graph.proto.output[:]
    graph.proto.output.append(
        onnx.helper.make_tensor_value_info(output, onnx.TensorProto.FLOAT, dims)
    )
    graph.set_nodes(reversed(kept))


def spell_out(graph: Graph) -> None:
    """Write the order of axes where it is left out, and Identity where no axis moves.

    1.19.2 fuses every Transpose beside a Gemm as if it swapped two axes, and looks up the order
    beside a MatMul without asking whether it is there (measured). One whose input has a rank that
    is not known yet stays as it is.
    """
    replaced: dict[str, Sequence[onnx.NodeProto]] = {}
    for node in graph.proto.node:
        if not is_default(node, "Transpose"):
            continue
        given = ints_attribute(node, "perm")
        order = _reversed(graph, node) if given is None else given
        if order and order == sorted(order):
            replaced[node.name] = [_like(node, "Identity")]
        elif order and given is None:
            replaced[node.name] = [_like(node, "Transpose")]
            replaced[node.name][0].attribute.append(onnx.helper.make_attribute("perm", order))
    graph.replace(replaced)


def _reversed(graph: Graph, node: onnx.NodeProto) -> list[int]:
    """The default; empty if the rank is not known."""
    return [*range(len(graph.dims(node.input[0]) or ()))][::-1]


def _like(node: onnx.NodeProto, op_type: str) -> onnx.NodeProto:
    return onnx.helper.make_node(op_type, node.input, node.output, name=node.name)
