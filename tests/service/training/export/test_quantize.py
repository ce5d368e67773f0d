"""Int8 forms of models as PyTorch exports them, by both exporters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, numpy_helper

from service.training.engines.runtime import native
from service.training.export.quantize import quantized_forms

GRAPHS = Path(__file__).parent.parent / "graphs"
PROVIDERS = ["CPUExecutionProvider"]
BOTH = {"static", "dynamic"}


@pytest.mark.parametrize(
    ("name", "runs"),
    [
        ("mlp_ts13", BOTH),
        ("mlp_dy18_fixed", BOTH),
        ("cnn_dy18", BOTH),
        ("cnn_bn_ts15", BOTH),
        ("lstm_dy18", BOTH),
        ("gru_ts17", BOTH),
        ("transformer_ts17", BOTH),
        # QLinearMatMul of opset 21 has no kernel in onnxruntime 1.19.2.
        ("transformer_dy21", {"dynamic"} if onnxruntime.__version__ == "1.19.2" else BOTH),
        ("norm_gelu_dy20", BOTH),
    ],
)
def test_a_quantized_model_computes_nearly_the_same(
    tmp_path: Path, name: str, runs: set[str]
) -> None:
    source = GRAPHS / f"{name}.onnx"
    session = onnxruntime.InferenceSession(source, providers=PROVIDERS)
    rows = [row(session, seed) for seed in range(32)]
    expected = [session.run(None, row)[0] for row in rows]
    scale = max(float(np.abs(each).max()) for each in expected)
    ran = set()
    folder = tmp_path / "Größe, 日本"
    folder.mkdir()
    for method, path in quantized_forms(source, folder, rows=rows):
        # With more bits, sums overflow on x86 processors without VNNI.
        assert all(np.abs(matrix.astype(int)).max() <= 64 for matrix in matrices(path)), method
        try:
            quantized = onnxruntime.InferenceSession(path, providers=PROVIDERS)
        except native.NotImplemented:
            continue
        actual = [quantized.run(None, row)[0] for row in rows]
        error = max(float(np.abs(a - e).max()) for a, e in zip(actual, expected, strict=True))
        assert error < 0.15 * scale, method
        ran.add(method)
    assert ran == runs


def matrices(path: Path) -> list[Any]:
    """The weights of a quantized model."""
    every = onnx.load(path).graph.initializer
    found = [numpy_helper.to_array(each) for each in every if each.data_type == TensorProto.INT8]
    matrices = [each for each in found if each.ndim > 1]
    assert matrices
    return matrices


def row(session: onnxruntime.InferenceSession, seed: int) -> dict[str, Any]:
    generator = np.random.default_rng(seed)
    made = {}
    for spec in session.get_inputs():
        shape = [size if isinstance(size, int) else 1 for size in spec.shape]
        made[spec.name] = (
            generator.standard_normal(shape).astype(np.float32)
            if "float" in spec.type
            else generator.integers(0, 3, shape)
        )
    return made
