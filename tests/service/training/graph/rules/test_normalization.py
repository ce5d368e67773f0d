"""Rules of normalizations."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from gradients import Array, check, one_node, run
from onnx import helper, numpy_helper

from service.training.graph.step import differentiate, gradient_of


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape)


def feeds(*inputs: Array) -> dict[str, Array]:
    return {f"x{i}": value for i, value in enumerate(inputs)}


@pytest.mark.parametrize("places", [(), (4,), (2, 3)])
def test_batch_normalization_by_kept_statistics(places: tuple[int, ...]) -> None:
    x, scale, shift, mean = normal(3, 2, *places), *(normal(2, seed=i) for i in (1, 2, 3))
    variance = np.abs(normal(2, seed=4)) + 0.3
    inputs = [x, scale, shift, mean, variance]
    model = one_node("BatchNormalization", inputs, epsilon=1e-3)
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"
    check(model, feeds(*inputs))


@pytest.mark.parametrize("axis", [-1, 1, -2])
@pytest.mark.parametrize("shifted", [True, False])
def test_layer_normalization_over_the_last_axes(axis: int, shifted: bool) -> None:
    x = normal(2, 3, 4)
    shape = x.shape[axis:]
    inputs = [x, normal(*shape, seed=1), normal(*shape, seed=2)][: 3 if shifted else 2]
    check(one_node("LayerNormalization", inputs, axis=axis, epsilon=1e-3), feeds(*inputs))


@pytest.mark.parametrize("places", [(4,), (2, 3)])
def test_instance_normalization(places: tuple[int, ...]) -> None:
    inputs = [normal(2, 3, *places), normal(3, seed=1), normal(3, seed=2)]
    model = one_node("InstanceNormalization", inputs, epsilon=1e-3)
    check(model, feeds(*inputs))


@pytest.mark.parametrize("opset", [18, 21])
def test_group_normalization(opset: int) -> None:
    count = 2 if opset == 18 else 4
    inputs = [normal(2, 4, 3, 2), normal(count, seed=1), normal(count, seed=2)]
    # The definition of opset 21 computes in the type that it is told.
    kind = {"stash_type": onnx.TensorProto.DOUBLE} if opset == 21 else {}
    model = one_node("GroupNormalization", inputs, opset=opset, num_groups=2, epsilon=1e-3, **kind)
    check(model, feeds(*inputs))


def test_mean_variance_normalization() -> None:
    """Its definition is of float32 alone."""
    x = normal(2, 3, 2, 2)
    weights = normal(2, 3, 2, 2, seed=1)

    def total(x: Array) -> float:
        axes = (0, 2, 3)
        deviation = np.sqrt((x**2).mean(axes, keepdims=True) - x.mean(axes, keepdims=True) ** 2)
        return float((weights * (x - x.mean(axes, keepdims=True)) / (deviation + 1e-9)).sum())

    model = one_node("MeanVarianceNormalization", [x.astype(np.float32)])
    model.graph.node.append(helper.make_node("Mul", ["y0", "w"], ["m"], name="m"))
    weight = numpy_helper.from_array(weights.astype(np.float32), "w")
    model.graph.initializer.append(weight)
    step = differentiate(model, loss="m", parameters=["x0"])
    found = run(step, {"x0": x.astype(np.float32)})[gradient_of("x0")]
    direction = normal(2, 3, 2, 2, seed=2)
    slope = (total(x + 1e-6 * direction) - total(x - 1e-6 * direction)) / 2e-6
    assert (found * direction).sum() == pytest.approx(slope, rel=1e-3)


@pytest.mark.parametrize("size", [1, 3, 5])
def test_local_response_normalization(size: int) -> None:
    x = normal(2, 5, 2)[..., None]
    check(one_node("LRN", [x], size=size, alpha=0.5, beta=0.6, bias=1.5), feeds(x))
