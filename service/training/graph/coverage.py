"""Writes docs/operators.md: what becomes of each operator of ONNX.

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

What becomes of each operator of ai.onnx, up to opset {NEWEST}, when a trained weight lies below it.
This page is written by `python -m service.training.graph.coverage`, and a test holds it equal.

- **rule**: it has a gradient of its own, in `service/training/graph/rules/`.
- **lowered**: it is written out by other operators first, which have rules.
- **none**: what lies below it is not trained through it. Where the column says that its output is
  counted, compared, drawn or rounded, the way of the gradient ends there and the rest trains. Any
  other on the way from a trained weight to the loss is refused with the node's name.

Below the trained part every operator that the engine runs will do. The last column is what ONNX's
own definitions say of the inputs: `yes`, `no`, or `?` where they say nothing.

| operator | since | here | why, or how | ONNX |
|---|--:|---|---|---|
"""
MICROSOFT = """
Of com.microsoft, ONNX Runtime's own operators, these are lowered where they have no further inputs
than the usual ones (an Attention with a mask or a past is not): {}. Others are refused on the way
of a gradient: export the model before it is optimized or quantized.
"""
SEQUENCE = "sequences of tensors are not followed, unless the graph tells what is taken from where"
QUANTIZED = "quantized; export the float model"
CONTROL = "control flow; an If that constants or fixed sizes decide is replaced by its branch"
DRAWN = "drawn at random; a Dropout takes its draws as an input"
REASONS = {
    "AffineGrid": "not written by usual exporters of float networks",
    "Bernoulli": DRAWN,
    "Col2Im": "not written by usual exporters of float networks",
    "Constant": "a constant",
    "ConstantOfShape": "a constant",
    "DFT": "not written by usual exporters of float networks",
    "DeformConv": "not written by usual exporters of float networks",
    "DequantizeLinear": QUANTIZED,
    "Det": "not written by usual exporters of float networks",
    "DynamicQuantizeLinear": QUANTIZED,
    "EyeLike": "a constant",
    "GridSample": "not written yet",
    "Hardmax": "constant wherever it has a derivative; use Softmax",
    "If": CONTROL,
    "Loop": "control flow; export it unrolled",
    "MaxRoiPool": "not written by usual exporters of float networks",
    "OneHot": "its values are constants in every usual export",
    "Range": "counted",
    "RoiAlign": "not written by usual exporters of float networks",
    "STFT": "not written by usual exporters of float networks",
    "Scan": "control flow; export it unrolled",
    "Scatter": "deprecated: ScatterElements since opset 11",
    "TfIdfVectorizer": "counted",
    "Unique": "sorted and counted",
    "Upsample": "deprecated: the conversion of old opsets writes Resize",
}
REASONS.update(
    dict.fromkeys(
        ("BlackmanWindow", "HammingWindow", "HannWindow", "MelWeightMatrix"), "a constant"
    )
)
REASONS.update(
    dict.fromkeys(("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"), DRAWN)
)
REASONS.update(
    dict.fromkeys(("ConvInteger", "MatMulInteger", "QLinearConv", "QLinearMatMul"), QUANTIZED)
)
REASONS.update(dict.fromkeys(("QuantizeLinear",), QUANTIZED))
REASONS.update(dict.fromkeys(("Optional", "OptionalGetElement", "OptionalHasElement"), SEQUENCE))
HOW = {
    "BatchNormalization": "by its kept statistics; by the batch's own if the model asks for it",
    "CastLike": "as Cast",
    "Clip": "1 at its bounds, as torch.clamp; PyTorch's ReLU6 has 0 there",
    "Dropout": "on where it was exported switched on; its mask is drawn outside of the graph",
    "Einsum": "not of diagonals",
    "GRU": "back through time in a Scan; not with clip or layout",
    "LSTM": "back through time in a Scan; not with clip, layout, input_forget or peepholes",
    "MaxPool": "to the first of equal numbers",
    "RNN": "back through time in a Scan; not with clip or layout",
    "ReduceMax": "equal numbers share",
    "ReduceMin": "equal numbers share",
    "Relu": "0 at its kink",
    "Resize": "nearest, linear and cubic, with antialias; sizes must be fixed",
    "ScatterElements": "with reduction none or add",
    "ScatterND": "with reduction none or add",
}


def page() -> str:
    """The document."""
    rows = "".join(_row(schema) for schema in schemas())
    return HEAD + rows + MICROSOFT.format(", ".join(sorted(BODIES)))


def schemas() -> list[defs.OpSchema]:
    """Every operator in its newest version that a model may have."""
    newest: dict[str, defs.OpSchema] = {}
    for schema in defs.get_all_schemas_with_history():
        known = newest.get(schema.name)
        usable = schema.domain == "" and schema.since_version <= NEWEST
        if usable and (known is None or known.since_version < schema.since_version):
            newest[schema.name] = schema
    return [newest[name] for name in sorted(newest)]


def verdict(schema: defs.OpSchema) -> tuple[str, str]:
    """What becomes of the operator, and why or how. Raises KeyError if nobody thought of it."""
    name = schema.name
    if name in LOWERED:
        return "lowered", HOW.get(name, "by ONNX's own definition")
    if name in OPENED:
        return "lowered", "to the tensors it holds, where the graph tells them; else refused"
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
