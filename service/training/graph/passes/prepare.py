"""Brings a model into the form that is differentiated, without changing what it computes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import onnx
from onnx import defs, helper, inliner, numpy_helper, shape_inference, version_converter

from service.training.errors import refuse
from service.training.graph.builder import STANDARD
from service.training.graph.flow import duplicate, subgraphs
from service.training.graph.passes.branches import inline_decided
from service.training.graph.passes.folding import fold
from service.training.graph.passes.inference import bring_back, infer, set_aside
from service.training.graph.passes.microsoft import write_out
from service.training.graph.passes.modes import switch_off
from service.training.graph.passes.pads import spell_out_pads
from service.training.graph.passes.sequences import open_sequences
from service.training.graph.passes.shapes import fold_shapes
from service.training.graph.passes.simplify import pool_before_relu, simplify

OLDEST, NEWEST = 18, 21
"""Opsets whose operators the rules write: Reduce takes its axes as an input since 18."""
IR_VERSION = 10
"""The newest that onnxruntime 1.19.2 loads."""
LOWERED = (
    "CastLike",
    "CenterCropPad",
    "GroupNormalization",
    "MeanVarianceNormalization",
    "NegativeLogLikelihoodLoss",
    "SoftmaxCrossEntropyLoss",
)
"""Written out by ONNX's own definitions of them; the gradient is that of their parts."""


def prepare(
    model: onnx.ModelProto, output: str | None = None, *, training: bool = False
) -> onnx.ModelProto:
    """A copy with functions written out, one opset, constants folded, and types inferred.

    output: the tensor that is to be its only output; None keeps those that it has. training: leaves
    Dropout on where it is. BatchNormalization uses its kept statistics.
    Raises GraphRefused if the opset cannot be converted.
    """
    model = inliner.inline_local_functions(model) if model.functions else _copy(model)
    _drop_listed_initializers(model)
    if output is not None:
        declared = [each for each in model.graph.output if each.name == output]
        kept = declared or [helper.make_empty_tensor_value_info(output)]
        del model.graph.output[:]
        model.graph.output.extend(kept)
    model = write_out(_convert(model))
    for names in (LOWERED[1:], LOWERED[:1]):  # The definition of CastLike needs its input's type.
        model = _lower(model, names)
    del model.training_info[:]
    _name_nodes(model)
    _lift_constants(model)
    switch_off(model, dropout=not training)
    _untie_constants(model)
    fold(model)
    fold_shapes(model)
    while inline_decided(model):  # What it gives may decide the next.
        _lift_constants(model)
        fold_shapes(model)
    open_sequences(model)
    simplify(model)
    pool_before_relu(model)
    stamp(model)
    model = infer(model)
    spell_out_pads(model)
    return model


def stamp(model: onnx.ModelProto) -> None:
    """An IR version that every engine loads, and only the opsets that a node uses."""
    model.ir_version = min(max(model.ir_version, 8), IR_VERSION)
    used = {inner.domain for node in model.graph.node for inner in _all_nodes(node)}
    versions = {"": opset(model)}
    versions.update(
        (o.domain, o.version) for o in model.opset_import if o.domain in used - set(STANDARD)
    )
    del model.opset_import[:]
    model.opset_import.extend(helper.make_opsetid(*item) for item in versions.items())


def opset(model: onnx.ModelProto) -> int:
    """Version of the standard operators. Raises GraphRefused if the model imports none."""
    for imported in model.opset_import:
        if imported.domain in STANDARD:
            return int(imported.version)
    raise refuse("/model/opset_import", "the model imports no ONNX opset; export it again")


def _all_nodes(node: onnx.NodeProto) -> Iterable[onnx.NodeProto]:
    yield node
    for graph in subgraphs(node):
        for inner in graph.node:
            yield from _all_nodes(inner)


def _copy(model: onnx.ModelProto) -> onnx.ModelProto:
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    return copy


def _drop_listed_initializers(model: onnx.ModelProto) -> None:
    names = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in names]
    del model.graph.input[:]
    model.graph.input.extend(inputs)


def _convert(model: onnx.ModelProto) -> onnx.ModelProto:
    version = opset(model)
    target = min(max(version, OLDEST), NEWEST)
    if version == target:
        return model
    # Since IR 4 an initializer need not be an input too; the converter goes by what is stamped.
    model.ir_version = max(model.ir_version, 4)
    weights = set_aside(model)
    try:
        converted = version_converter.convert_version(model, target)
    except (RuntimeError, onnx.checker.ValidationError, version_converter.ConvertError) as error:
        reason = " ".join(str(error).split())[:300]
        raise refuse(
            "/model/opset_import",
            f"opset {version} is outside {OLDEST} to {NEWEST} and cannot be converted: {reason}; "
            f"export with opset_version={OLDEST}",
        ) from None
    bring_back(converted, weights)
    return converted


def _lower(model: onnx.ModelProto, names: Sequence[str]) -> onnx.ModelProto:
    found = [n for n in model.graph.node if n.op_type in names and n.domain in STANDARD]
    if not found:
        return model
    for node in found:
        _spell_out(node, opset(model))
    weights = set_aside(model)
    inferred = shape_inference.infer_shapes(model, data_prop=True)
    _declare_initializers(inferred.graph)
    ids = [("", name) for name in names]
    try:
        lowered = inliner.inline_selected_functions(inferred, ids, inline_schema_functions=True)
    except RuntimeError as error:
        reason = " ".join(str(error).split())[:300]
        nodes = ", ".join(f'"{node.name}" ({node.op_type})' for node in found)
        raise refuse(
            "/model/graph/node",
            f"one of the nodes {nodes} cannot be written out by ONNX's definition of it: {reason}; "
            "export the model with the shapes of its tensors",
        ) from None
    bring_back(lowered, weights)
    return lowered


def _declare_initializers(graph: onnx.GraphProto) -> None:
    """Give their types, which the inliner does not read from them."""
    known = {value.name for value in (*graph.value_info, *graph.input)}
    graph.value_info.extend(
        helper.make_tensor_value_info(t.name, t.data_type, t.dims)
        for t in graph.initializer
        if t.name not in known
    )


def _spell_out(node: onnx.NodeProto, version: int) -> None:
    """Give the node the attributes that it left to their defaults: the inliner needs them."""
    there = {attribute.name for attribute in node.attribute}
    for name, attribute in defs.get_schema(node.op_type, version, "").attributes.items():
        if name not in there and attribute.default_value.name:
            node.attribute.append(attribute.default_value)


def _name_nodes(model: onnx.ModelProto) -> None:
    """Give every node a name of its own, for messages, and every Split all its outputs."""
    seen: set[str] = set()
    for index, node in enumerate(model.graph.node):
        # A name that is not UTF-8 reads as bytes.
        name = node.name if isinstance(node.name, str) and node.name else f"{node.op_type}_{index}"
        while name in seen:
            name += "_"
        seen.add(name)
        node.name = name
        if node.op_type == "Split":
            node.output[:] = [o or f"{name}:unused_{i}" for i, o in enumerate(node.output)]


def _lift_constants(model: onnx.ModelProto) -> None:
    kept = []
    for node in model.graph.node:
        tensor = _constant(node) if node.op_type == "Constant" else None
        if tensor is None:
            kept.append(duplicate(node))
        else:
            tensor.name = node.output[0]
            model.graph.initializer.append(tensor)
    del model.graph.node[:]
    model.graph.node.extend(kept)


def _constant(node: onnx.NodeProto) -> onnx.TensorProto | None:
    (attribute,) = node.attribute
    value = helper.get_attribute_value(attribute)
    if isinstance(value, onnx.TensorProto):
        return duplicate(value)
    if attribute.name in ("value_float", "value_floats"):
        return numpy_helper.from_array(np.array(value, np.float32))
    if attribute.name in ("value_int", "value_ints"):
        return numpy_helper.from_array(np.array(value, np.int64))
    return None


def _untie_constants(model: onnx.ModelProto) -> None:
    """Give parameters of one value, all zeros or ones, their own initializers again.

    PyTorch's exporters merge initializers that are equal when they export, such as the biases of
    fresh layers: TorchScript's writes Identity for the others, dynamo's reads one tensor from
    several nodes. Tensors of differing values that are equal are tied on purpose and stay so.
    """
    plain = {t.name: t for t in model.graph.initializer if _is_uniform(t)}
    ends = {value.name for value in model.graph.output}
    copied: list[onnx.TensorProto] = []
    for node in model.graph.node:
        if node.op_type != "Identity" or node.input[0] not in plain or node.output[0] in ends:
            continue
        copied.append(duplicate(plain[node.input[0]]))
        copied[-1].name = node.output[0]
    names = {t.name for t in copied}
    kept = [n for n in model.graph.node if not names.intersection(n.output)]
    copies = [duplicate(n) for n in kept]
    del model.graph.node[:]
    model.graph.node.extend(copies)
    model.graph.initializer.extend(copied)


def _is_uniform(tensor: onnx.TensorProto) -> bool:
    if tensor.data_type != onnx.TensorProto.FLOAT or not tensor.dims:
        return False
    value = numpy_helper.to_array(tensor)
    return bool(value.size) and bool(np.all(value == value.flat[0]))
