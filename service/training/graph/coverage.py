"""Writes docs/operators.md: how each operator of ONNX is handled.

python -m service.training.graph.coverage > docs/operators.md
"""

from __future__ import annotations

import sys

from onnx import defs

from service.training.graph.passes.microsoft import BODIES
from service.training.graph.passes.prepare import LOWERED, NEWEST
from service.training.graph.passes.sequences import OPENED
from service.training.graph.rules import RULES
from service.training.graph.rules.elementwise import NO_SLOPE

HEAD = f"""# Operators that train

How Hone differentiates each operator of ai.onnx, up to opset {NEWEST}, between a trained weight and
the loss. `python -m service.training.graph.coverage` writes this page; a test compares the two.

- **rule**: it has a rule in `service/training/graph/rules/`.
- **lowered**: it is replaced by operators that have rules.
- **none**: no gradient flows through it. If its output is a constant, counted, compared, drawn at
  random or rounded, as the column says, the rest of the model trains. Any other such operator
  between a trained weight and the loss is refused, with the node's name.

Operators that only later opsets have are written out if ONNX defines them by others: `Attention`,
`RMSNormalization`, `RotaryEmbedding` and `Swish` among them.

Below the trained weights, a model may contain every operator that the engine runs. The last column
says which inputs are differentiable by ONNX's own definitions: `yes`, `no`, or `?` if they do not
say.

| operator | since | here | why, or how | ONNX |
|---|--:|---|---|---|
"""
MICROSOFT = """
Of ONNX Runtime's own operators (com.microsoft), these are lowered if they have only the usual
inputs (an Attention with a mask or a past is not): {}. MatMulNBits of four bits has a rule, where
adapters train. Others are refused between a trained weight
and the loss: export the model before optimizing or quantizing it.
"""
SEQUENCE = "sequences of tensors are supported only if the graph fixes which element is taken"
QUANTIZED = "quantized; export the float model"
STRAIGHT = "straight through, where adapters train"
CONTROL = "control flow; an If decided by constants or fixed sizes is replaced by its branch"
DRAWN = "drawn at random; a Dropout takes its draws as an input"
REASONS = {
    "Bernoulli": DRAWN,
    "Constant": "a constant",
    "ConstantOfShape": "a constant",
    "Det": "rare between weights and a loss",
    "EyeLike": "a constant",
    "Hardmax": "constant wherever it has a derivative; use Softmax",
    "If": CONTROL,
    "Loop": "control flow; export it unrolled; that of TorchScript's EmbeddingBag is written out",
    "MelWeightMatrix": "a constant",
    "MaxRoiPool": "of detectors, whose losses are not here",
    "OneHot": "exporters write its values as constants",
    "Range": "counted",
    "RoiAlign": "of detectors, whose losses are not here",
    "Scan": "control flow; export it unrolled",
    "Scatter": "deprecated: ScatterElements since opset 11",
    "TfIdfVectorizer": "counted",
    "Unique": "sorted and counted",
    "Upsample": "deprecated: conversion from old opsets writes Resize",
    **dict.fromkeys(("BlackmanWindow", "HammingWindow", "HannWindow"), "a constant"),
    **dict.fromkeys(("RandomNormal", "RandomNormalLike"), DRAWN),
    **dict.fromkeys(("RandomUniform", "RandomUniformLike"), DRAWN),
    **dict.fromkeys(("ConvInteger", "QLinearConv", "QLinearMatMul"), QUANTIZED),
    **dict.fromkeys(("Optional", "OptionalGetElement", "OptionalHasElement"), SEQUENCE),
}
HOW = {
    "BatchNormalization": "with running statistics; with the batch's if `batch_norm` is `training`",
    "CastLike": "as Cast",
    "Clip": "1 at its bounds, as torch.clamp; PyTorch's ReLU6 has 0 there",
    "DFT": "inverse and onesided at once needs a newer ONNX Runtime: 1.32 runs it, 1.22 does not",
    "DeformConv": "with fixed sizes; needs a newer ONNX Runtime: 1.32 runs it, 1.22 does not",
    "DequantizeLinear": STRAIGHT,
    "Dropout": "active if it was exported so; its mask is drawn outside the graph",
    "DynamicQuantizeLinear": STRAIGHT,
    "Einsum": "without diagonals",
    "GRU": "backwards in time by a Scan; not with clip or layout",
    "GridSample": "not cubic",
    "LSTM": "both ways in time by a Scan each; not with clip, layout, input_forget or peepholes",
    "MatMulInteger": f"by its first matrix, {STRAIGHT}",
    "MaxPool": "to the first of equal values",
    "QuantizeLinear": f"{STRAIGHT}; 0 where it clips",
    "RNN": "backwards in time by a Scan; not with clip or layout",
    "ReduceMax": "shared among equal values",
    "ReduceMin": "shared among equal values",
    "Relu": "0 at its kink",
    "Resize": "nearest, linear and cubic, with antialias; sizes must be fixed",
    "STFT": "of real signals; by the signal, not by the window",
    "ScatterElements": "with reduction none or add",
    "ScatterND": "with reduction none or add",
}


def page() -> str:
    """The document."""
    rows = "".join(_row(schema) for schema in schemas())
    return HEAD + rows + MICROSOFT.format(", ".join(sorted(BODIES)))


def schemas() -> list[defs.OpSchema]:
    """Every operator, in the newest version that a model may use."""
    newest: dict[str, defs.OpSchema] = {}
    for schema in defs.get_all_schemas_with_history():
        known = newest.get(schema.name)
        usable = schema.domain == "" and schema.since_version <= NEWEST
        if usable and (known is None or known.since_version < schema.since_version):
            newest[schema.name] = schema
    return [newest[name] for name in sorted(newest)]


def verdict(schema: defs.OpSchema) -> tuple[str, str]:
    """`rule`, `lowered` or `none`, and how or why. Raises KeyError for an unknown operator."""
    name = schema.name
    if name in LOWERED:
        return "lowered", HOW.get(name, "by ONNX's own definition")
    if name in OPENED:
        return "lowered", "to the tensors it holds if the graph fixes them; else refused"
    if name in NO_SLOPE:
        return "none", "rounded"
    if name in RULES:
        return "rule", HOW.get(name, "")
    if name not in REASONS and not any("tensor(float)" in out.types for out in schema.outputs):
        return "none", SEQUENCE if name.startswith("Seq") else "counted or compared"
    return "none", REASONS[name]


def _row(schema: defs.OpSchema) -> str:
    here, why = verdict(schema)
    said = " ".join(_said(parameter) for parameter in schema.inputs)
    return f"| {schema.name} | {schema.since_version} | {here} | {why} | {said} |\n"


def _said(parameter: defs.OpSchema.FormalParameter) -> str:
    category = defs.OpSchema.DifferentiationCategory
    words = {category.Differentiable: "yes", category.NonDifferentiable: "no"}
    return words.get(parameter.differentiation_category, "?")


if __name__ == "__main__":
    sys.stdout.write(page())
