"""8-bit integer forms of an inference model, by ONNX Runtime's own tools.

Source: https://onnxruntime.ai/docs/performance/model-optimizations/quantization.html
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import onnx

from service.training.engines.ort_training.absence import without_sympy
from service.training.engines.runtime import LOAD_ERRORS

with without_sympy():
    from onnxruntime.quantization import (
        CalibrationDataReader,
        QuantFormat,
        QuantType,
        quantize_dynamic,
        quantize_static,
    )
    from onnxruntime.quantization.registry import CommonOpsRegistry, IntegerOpsRegistry
    from onnxruntime.quantization.shape_inference import quant_pre_process

logger = logging.getLogger(__name__)

MIN_OPSET_PER_CHANNEL = 13
DYNAMIC_OPERATORS = [
    operator for operator in (*CommonOpsRegistry, *IntegerOpsRegistry) if operator != "Conv"
]
"""ConvInteger has no kernel for signed weights (onnxruntime 1.19.2)."""
QUANTIZED = frozenset(
    {
        "ConvInteger",
        "DequantizeLinear",
        "DynamicQuantizeLSTM",
        "DynamicQuantizeLinear",
        "DynamicQuantizeMatMul",
        "MatMulInteger",
    }
)
"""A model without any of these was not quantized."""
REFUSALS = (
    *LOAD_ERRORS,
    onnx.checker.ValidationError,
    onnx.shape_inference.InferenceError,
    # The tools raise arbitrary exceptions: their assertions and look-ups concern the graph.
    AssertionError,
    AttributeError,
    IndexError,
    KeyError,
    NotImplementedError,
    RuntimeError,
    TypeError,
    ValueError,
)


class Rows(CalibrationDataReader):  # type: ignore[misc]  # untyped base
    """Yields calibration samples, one row at a time, by input name."""

    def __init__(self, rows: Sequence[dict[str, Any]]) -> None:
        self._rows = iter(rows)

    def get_next(self) -> dict[str, Any] | None:
        return next(self._rows, None)


def quantized_forms(
    source: Path, folder: Path, *, rows: Sequence[dict[str, Any]]
) -> Iterator[tuple[str, Path]]:
    """(method, path) of each form that could be made: `static` if there are rows, `dynamic`.

    Static suits convolutions, dynamic suits recurrent nets and transformers; measuring both shows
    which one a model tolerates. Weights have 7 bits: the sum of two products with 8 exceeds the 16
    bits that x86 processors without VNNI have for it, and outputs were off by up to half.
    """
    prepared = folder / "prepared.onnx"
    if not _made(lambda: quant_pre_process(source, prepared, skip_symbolic_shape=True), prepared):
        prepared = source
    opset = _forget_shapes(prepared, folder / "bare.onnx")
    static, dynamic = folder / "static.onnx", folder / "dynamic.onnx"
    if rows and _made(
        lambda: quantize_static(
            prepared,
            static,
            Rows(rows),
            quant_format=QuantFormat.QDQ,
            activation_type=QuantType.QInt8,
            weight_type=QuantType.QInt8,
            reduce_range=True,
            per_channel=opset >= MIN_OPSET_PER_CHANNEL,
        ),
        static,
    ):
        yield "static", static
    bare = folder / "bare.onnx"
    if _made(
        lambda: quantize_dynamic(
            bare,
            dynamic,
            op_types_to_quantize=DYNAMIC_OPERATORS,
            weight_type=QuantType.QInt8,
            reduce_range=True,
        ),
        dynamic,
    ):
        yield "dynamic", dynamic


def _forget_shapes(source: Path, destination: Path) -> int:
    """Copy a model without the shapes inside it; its opset.

    quantize_dynamic turns Gemm into MatMul and transposes weights, but not the shapes declared for
    them, and then fails on the contradiction (onnxruntime 1.19.2, models of torch's dynamo).
    """
    model = onnx.load_model(source, load_external_data=False)
    del model.graph.value_info[:]
    onnx.save_model(model, destination)
    opsets = (entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx"))
    return int(next(opsets))


def _made(make: Callable[[], object], path: Path) -> bool:
    """Whether the tool converted the model; its other messages go into the log."""
    try:
        make()
    except REFUSALS as error:
        logger.warning("not_quantized file=%s error=%s", path.name, error)
        return False
    if path.name == "prepared.onnx":
        return True
    graph = onnx.load_model(path, load_external_data=False).graph
    return any(node.op_type in QUANTIZED for node in graph.node)


def _infer_shapes(source: str, destination: str) -> None:
    inferred = onnx.shape_inference.infer_shapes(onnx.load_model(source, load_external_data=False))
    onnx.save_model(inferred, destination)


if sys.platform == "win32":  # where onnx's own writes to no path with letters beyond ASCII
    onnx.shape_inference.infer_shapes_path = _infer_shapes
