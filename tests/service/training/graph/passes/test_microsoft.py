"""Operators of com.microsoft, against the engine's own kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from gradients import Array, one_node, run

from service.training.graph.passes.prepare import prepare
from service.training.graph.step import differentiate, gradient_of

DOMAIN = "com.microsoft"


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def row(count: int) -> list[Array]:
    return [normal(8, seed=i + 1) for i in range(count)]


X, SKIP = normal(2, 3, 8), normal(2, 3, 8, seed=9)
CASES: list[tuple[str, list[Array | None], dict[str, Any]]] = [
    ("Gelu", [X], {}),
    ("BiasGelu", [X, *row(1)], {}),
    ("FastGelu", [X], {}),
    ("FastGelu", [X, *row(1)], {}),
    ("QuickGelu", [X], {"alpha": 1.5}),
    ("FusedMatMul", [X, normal(8, 4, seed=1)], {"alpha": 0.5}),
    ("FusedMatMul", [X, normal(2, 4, 8, seed=1)], {"transB": 1}),
    ("FusedMatMul", [X, normal(2, 3, 4, seed=1)], {"transA": 1, "alpha": 2.0}),
    ("SkipLayerNormalization", [X, SKIP, *row(2)], {"epsilon": 1e-3}),
    ("SkipLayerNormalization", [X, SKIP, *row(3)], {"epsilon": 1e-3}),
    ("SkipLayerNormalization", [X, SKIP, *row(1)], {"epsilon": 1e-3}),
    ("SkipSimplifiedLayerNormalization", [X, SKIP, *row(1)], {"epsilon": 1e-3}),
    ("Attention", [X, normal(8, 24, seed=1), normal(24, seed=2)], {"num_heads": 2}),
]


@pytest.mark.parametrize(("op_type", "inputs", "attributes"), CASES)
def test_what_is_written_out_computes_what_the_kernel_does(
    op_type: str, inputs: list[Array], attributes: dict[str, Any]
) -> None:
    model = one_node(op_type, inputs, domain=DOMAIN, **attributes)
    model.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    prepared = prepare(model)
    assert {node.domain for node in prepared.graph.node} == {""}
    feeds = {f"x{i}": value for i, value in enumerate(inputs)}
    expected = run(model, feeds)["y0"]
    np.testing.assert_allclose(run(prepared, feeds)["y0"], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("op_type", "inputs", "attributes"), CASES)
def test_it_has_the_slope_of_the_kernel(
    op_type: str, inputs: list[Array], attributes: dict[str, Any]
) -> None:
    """Differences of the kernel's float32 results, so only roughly."""
    model = one_node(op_type, inputs, domain=DOMAIN, **attributes)
    model.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    feeds = {f"x{i}": value for i, value in enumerate(inputs)}
    found = run(differentiate(model, loss="y0", parameters=["x0"]), feeds)[gradient_of("x0")]
    direction = normal(*X.shape, seed=11)
    high, low = (
        run(model, feeds | {"x0": X + s * np.float32(0.01) * direction})["y0"]
        .astype(np.float64)
        .sum()
        for s in (1, -1)
    )
    assert (found * direction).sum() == pytest.approx((high - low) / 0.02, rel=2e-2, abs=5e-2)


def test_an_attention_with_a_mask_is_left_as_it_is() -> None:
    inputs = [X, normal(8, 24, seed=1), normal(24, seed=2), np.ones((2, 3), np.int32)]
    model = one_node("Attention", inputs, domain=DOMAIN, num_heads=2)
    assert [node.op_type for node in prepare(model).graph.node] == ["Attention"]
