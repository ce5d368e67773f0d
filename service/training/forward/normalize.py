"""Brings a model into the form that the passes and the engine know, without changing its result."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import inliner, version_converter

from service.training.engines.runtime import MAX_IR_VERSION, MAX_OPSET, MIN_OPSET
from service.training.errors import refuse
from service.training.forward.folding import fold
from service.training.forward.graph import (
    DEFAULT_DOMAINS,
    Graph,
    attribute,
    is_default,
    nodes_of,
    reads,
)
from service.training.forward.origins import recorded
from service.training.forward.restore import restore
from service.training.forward.transposes import spell_out

OLD_OPSET_BECOMES = 13
"""First opset whose Softmax, ReduceSum, Squeeze and Split are those of today."""


def normalize(model: onnx.ModelProto, notes: list[str]) -> Graph:
    """Functions inlined, opset and IR within the engine's bounds, constants as initializers.

    Raises GraphRefused if the opset cannot be converted.
    """
    restore(model)
    told = recorded(model)
    if model.functions:
        model = inliner.inline_local_functions(model)
        notes.append("the model's local functions were inlined")
    _drop_listed_initializers(model)
    model = _convert(model, notes)
    del model.training_info[:]
    _name_nodes(model)
    stamp(model)
    graph = Graph(model)
    graph.parameters = {name for name, is_parameter in told.items() if is_parameter}
    graph.constants = told.keys() - graph.parameters
    _lift_constants(graph)
    fold(graph)
    spell_out(graph)
    return graph


def stamp(model: onnx.ModelProto) -> None:
    """IR version that the engine loads, and only the opset imports that a node uses."""
    model.ir_version = min(max(model.ir_version, 8), MAX_IR_VERSION)
    used = {inner.domain for node in model.graph.node for inner in nodes_of(node)}
    used.update(node.domain for function in model.functions for node in function.node)
    used.update(function.domain for function in model.functions)
    kept = [o for o in model.opset_import if o.domain in used or o.domain in DEFAULT_DOMAINS]
    versions = {("" if o.domain in DEFAULT_DOMAINS else o.domain): o.version for o in kept}
    del model.opset_import[:]
    model.opset_import.extend(onnx.helper.make_opsetid(*item) for item in versions.items())


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


def _drop_listed_initializers(model: onnx.ModelProto) -> None:
    names = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in names]
    del model.graph.input[:]
    model.graph.input.extend(inputs)


def _convert(model: onnx.ModelProto, notes: list[str]) -> onnx.ModelProto:
    versions = [o.version for o in model.opset_import if o.domain in DEFAULT_DOMAINS]
    if not versions:
        raise refuse("/model/opset_import", "the model imports no ONNX opset; export it again")
    version = versions[0]
    if MIN_OPSET <= version <= MAX_OPSET:
        return model
    target = OLD_OPSET_BECOMES if version < MIN_OPSET else MAX_OPSET
    # Since IR 4 an initializer need not be an input too; the converter goes by what is stamped.
    model.ir_version = max(model.ir_version, 4)
    try:
        converted = version_converter.convert_version(model, target)
    except (
        RuntimeError,
        onnx.checker.ValidationError,
        version_converter.ConvertError,
    ) as error:
        reason = " ".join(str(error).split())[:300]
        raise refuse(
            "/model/opset_import",
            f"opset {version} is outside {MIN_OPSET} to {MAX_OPSET} and cannot be converted: "
            f"{reason}; export with opset_version=17",
        ) from None
    notes.append(f"opset {version} was converted to {target}")
    return converted


def _name_nodes(model: onnx.ModelProto) -> None:
    taken = {node.name for node in model.graph.node}
    seen: set[str] = set()
    for index, node in enumerate(model.graph.node):
        # A name that is not UTF-8 reads as bytes.
        if not isinstance(node.name, str) or not node.name or node.name in seen:
            base = name = f"{node.op_type}_{index}"
            while name in taken:
                name = f"{base}_"
                base = name
            node.name = name
        seen.add(node.name)
        taken.add(node.name)


def _lift_constants(graph: Graph) -> None:
    lifted: dict[str, list[onnx.NodeProto]] = {}
    for node in graph.proto.node:
        if is_default(node, "Constant") and (tensor := _constant(node)) is not None:
            tensor.name = node.output[0]
            graph.proto.initializer.append(tensor)
            graph.constants.add(tensor.name)
            lifted[node.name] = []
    graph.replace(lifted)


def _constant(node: onnx.NodeProto) -> onnx.TensorProto | None:
    tensor = attribute(node, "value")
    if isinstance(tensor, onnx.TensorProto):
        copy = onnx.TensorProto()
        copy.CopyFrom(tensor)
        return copy
    for name, dtype in (
        ("value_float", np.float32),
        ("value_floats", np.float32),
        ("value_int", np.int64),
        ("value_ints", np.int64),
    ):
        value = attribute(node, name)
        if value is not None:
            return onnx.numpy_helper.from_array(np.array(value, dtype))
    return None
