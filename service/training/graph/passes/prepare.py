"""Converts a model to the form for differentiation, without changing what it computes."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import onnx
from onnx import defs, helper, inliner, shape_inference

from service.training.errors import refuse
from service.training.graph.builder import STANDARD
from service.training.graph.passes.branches import inline_decided
from service.training.graph.passes.canonical import (
    convert,
    drop_listed_initializers,
    lift_constants,
    name_nodes,
    opset,
    stamp,
)
from service.training.graph.passes.folding import fold
from service.training.graph.passes.gather_first import gather_before_transpose
from service.training.graph.passes.inference import bring_back, infer, set_aside
from service.training.graph.passes.microsoft import write_out
from service.training.graph.passes.modes import switch_off
from service.training.graph.passes.pads import spell_out_pads
from service.training.graph.passes.sequences import open_sequences
from service.training.graph.passes.shapes import fold_shapes
from service.training.graph.passes.simplify import pool_before_relu, simplify

OLDEST, NEWEST = 18, 21
"""Opsets whose operators the rules use: Reduce takes its axes as an input since 18."""
LOWERED = (
    "CastLike",
    "CenterCropPad",
    "GroupNormalization",
    "MeanVarianceNormalization",
    "NegativeLogLikelihoodLoss",
    "SoftmaxCrossEntropyLoss",
)
"""Expanded by ONNX's own definitions; the gradient is that of their parts."""


def prepare(
    model: onnx.ModelProto,
    output: str | None = None,
    *,
    training: bool = False,
    parameters: Collection[str] = (),
) -> onnx.ModelProto:
    """A copy with functions written out, one opset, constants folded, and types inferred.

    output: the tensor to become its only output; None keeps the outputs. training: leaves active
    Dropout on. parameters: initializers that are not constants of the program, whatever their rank.
    BatchNormalization uses its stored statistics. Raises GraphRefused if the opset cannot be
    converted.
    """
    model = inliner.inline_local_functions(model) if model.functions else _copy(model)
    drop_listed_initializers(model)
    if output is not None:
        declared = [each for each in model.graph.output if each.name == output]
        kept = declared or [helper.make_empty_tensor_value_info(output)]
        del model.graph.output[:]
        model.graph.output.extend(kept)
    model = write_out(convert(model, OLDEST, NEWEST))
    for names in (LOWERED[1:], LOWERED[:1]):  # The definition of CastLike needs its input's type.
        model = _lower(model, names)
    del model.training_info[:]
    name_nodes(model)
    lift_constants(model)
    switch_off(model, dropout=not training)
    fold(model, keep=parameters)
    fold_shapes(model, parameters)
    while inline_decided(model):  # Its result may be the condition of the next one.
        lift_constants(model)
        fold_shapes(model, parameters)
    open_sequences(model)
    simplify(model)
    gather_before_transpose(model)
    pool_before_relu(model)
    stamp(model)
    model = infer(model)
    spell_out_pads(model)
    return model


def _copy(model: onnx.ModelProto) -> onnx.ModelProto:
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    return copy


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
    """Set their types, which the inliner does not read from them."""
    known = {value.name for value in (*graph.value_info, *graph.input)}
    graph.value_info.extend(
        helper.make_tensor_value_info(t.name, t.data_type, t.dims)
        for t in graph.initializer
        if t.name not in known
    )


def _spell_out(node: onnx.NodeProto, version: int) -> None:
    """Write the node's default attributes explicitly: the inliner needs them."""
    there = {attribute.name for attribute in node.attribute}
    for name, attribute in defs.get_schema(node.op_type, version, "").attributes.items():
        if name not in there and attribute.default_value.name:
            node.attribute.append(attribute.default_value)
