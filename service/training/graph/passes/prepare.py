"""Converts a model to the form for differentiation, without changing what it computes."""

from __future__ import annotations

from collections.abc import Collection

import onnx
from onnx import helper, inliner

from service.training.graph.flow import refill
from service.training.graph.passes.branches import inline_decided
from service.training.graph.passes.canonical import (
    convert,
    drop_listed_initializers,
    lift_constants,
    name_nodes,
    stamp,
)
from service.training.graph.passes.folding import fold
from service.training.graph.passes.gather_first import gather_before_transpose
from service.training.graph.passes.inference import infer, without_data
from service.training.graph.passes.lowering import lower
from service.training.graph.passes.microsoft import write_out
from service.training.graph.passes.modes import switch_all_off
from service.training.graph.passes.pads import pad_within_convolutions, spell_out_pads
from service.training.graph.passes.sequences import open_sequences
from service.training.graph.passes.shapes import fold_shapes
from service.training.graph.passes.simplify import pool_before_relu, prune, simplify

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
    Dropout on. parameters: initializers that are not constants of the program, whatever their rank;
    of large ones the copy has no data. BatchNormalization uses its stored statistics. Raises
    GraphRefused if the opset cannot be converted.
    """
    model = without_data(model, parameters)
    if model.functions:
        model = inliner.inline_local_functions(model)
    drop_listed_initializers(model)
    if output is not None:
        declared = [value for value in model.graph.output if value.name == output]
        refill(model.graph.output, declared or [helper.make_empty_tensor_value_info(output)])
    model = write_out(convert(model, OLDEST, NEWEST))
    for names in (LOWERED[1:], LOWERED[:1]):  # The definition of CastLike needs its input's type.
        model = lower(model, names)
    del model.training_info[:]
    name_nodes(model)
    lift_constants(model)
    switch_all_off(model, "BatchNormalization", *([] if training else ["Dropout"]))
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
    pad_within_convolutions(model)
    prune(model.graph, [value.name for value in model.graph.output])
    return model
