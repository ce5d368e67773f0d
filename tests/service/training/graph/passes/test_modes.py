"""Dropout and BatchNormalization in a training step."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from gradients import Array, run
from onnx import TensorProto, helper, numpy_helper

from service.training.errors import GraphRefused
from service.training.graph.step import build_evaluation, build_step
from service.training.loss import Loss


def model(node: onnx.NodeProto, numbers: dict[str, Array], opset: int = 18) -> onnx.ModelProto:
    """y = node(x·w), float32, x (batch, 3, 4)."""
    dims = ["batch", 3, 4]
    graph = helper.make_graph(
        [helper.make_node("Mul", ["x", "w"], ["h"], name="scale"), node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, dims)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, dims)],
        [numpy_helper.from_array(v, n) for n, v in numbers.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def dropout(*, on: bool, shape: tuple[int, ...] = (1,), opset: int = 18) -> onnx.ModelProto:
    node = helper.make_node("Dropout", ["h", "ratio", "on"], ["y"], name="drop")
    ratio = np.array(0.25, np.float32)
    numbers = {"w": np.ones(shape, np.float32), "ratio": ratio, "on": np.array(on)}
    return model(node, numbers, opset)


@pytest.mark.parametrize("opset", [13, 18, 20, 21])
def test_dropout_keeps_what_is_drawn_above_its_ratio(opset: int) -> None:
    step = build_step(dropout(on=True, opset=opset), loss=Loss("mse"), parameters=["w"])
    assert [(d.name, d.shape) for d in step.random] == [("hone.random.drop", (-1, 3, 4))]
    x, target = normal(2, 3, 4), normal(2, 3, 4, seed=1)
    draw = np.random.default_rng(2).random((2, 3, 4), np.float32)
    found = run(step.model, feeds(x, target, w=np.ones(1, np.float32)) | {"hone.random.drop": draw})
    output = x * (draw >= 0.25) / 0.75
    assert found["hone.loss"] == pytest.approx(((output - target) ** 2).mean(), rel=1e-5)
    gradient = (2 * (output - target) * output).mean()
    np.testing.assert_allclose(found["hone.gradient.w"], [gradient], rtol=1e-4)


def test_dropout_that_is_off_stays_off_and_evaluation_never_drops() -> None:
    assert not build_step(dropout(on=False), loss=Loss("mse"), parameters=["w"]).random
    evaluation = build_evaluation(dropout(on=True), loss=Loss("mse"), parameters=["w"])
    x, target = normal(2, 3, 4), normal(2, 3, 4, seed=1)
    found = run(evaluation, feeds(x, target, w=np.ones(1, np.float32)))
    np.testing.assert_array_equal(found["y"], x)


def test_a_mask_of_unknown_size_is_refused_by_name() -> None:
    wide = dropout(on=True)
    wide.graph.input[0].type.tensor_type.shape.dim[2].dim_param = "width"
    with pytest.raises(GraphRefused, match='"drop"'):
        build_step(wide, loss=Loss("output"), parameters=["w"])


def feeds(x: Array, target: Array, **more: Array) -> dict[str, Array]:
    scale = np.full((1,) * x.ndim, 1 / len(x), np.float32)
    return {"x": x, "target": target, "hone.loss_scale": scale, **more}


NAMES = ("scale", "shift", "mean", "variance")


def normalization(opset: int = 18, **attributes: float) -> onnx.ModelProto:
    numbers = {n: normal(3, seed=i) for i, n in enumerate(NAMES)}
    numbers["variance"] = np.abs(numbers["variance"]) + 0.5
    node = helper.make_node("BatchNormalization", ["h", *NAMES], ["y"], name="norm", **attributes)
    return model(node, {"w": np.ones(1, np.float32), **numbers}, opset)


def statistics_of(whole: onnx.ModelProto) -> dict[str, Array]:
    tensors = {t.name: numpy_helper.to_array(t) for t in whole.graph.initializer}
    return {n: tensors[n] for n in (*NAMES, "w")}


@pytest.mark.parametrize("opset", [13, 18, 20, 21])
def test_batch_statistics_normalize_and_are_kept_as_pytorch_keeps_them(opset: int) -> None:
    whole = normalization(opset, momentum=0.8)
    parameters = ["w", "scale", "shift"]
    step = build_step(whole, loss=Loss("mse"), parameters=parameters, batch_statistics=True)
    assert step.batch_statistics
    assert step.updated == {"mean": "hone.updated.mean", "variance": "hone.updated.variance"}
    assert [v.name for v in step.model.graph.input][-2:] == ["mean", "variance"]
    x, target, numbers = normal(5, 3, 4), normal(5, 3, 4, seed=9), statistics_of(whole)
    found = run(step.model, feeds(x, target, **numbers))
    axes = (0, 2)
    old, batch = numbers["mean"], x.mean(axes)
    np.testing.assert_allclose(found["hone.updated.mean"], 0.8 * old + 0.2 * batch, rtol=1e-5)
    spread = 0.8 * numbers["variance"] + 0.2 * x.var(axes, ddof=1)
    np.testing.assert_allclose(found["hone.updated.variance"], spread, rtol=1e-5)

    def loss(w: float, scale: Array) -> float:
        h = (x * w).astype(np.float64)
        standard = (h - h.mean(axes, keepdims=True)) / np.sqrt(h.var(axes, keepdims=True) + 1e-5)
        y = standard * scale[:, None] + numbers["shift"][:, None]
        return float(((y - target) ** 2).mean())

    assert found["hone.loss"] == pytest.approx(loss(1.0, numbers["scale"]), rel=1e-5)
    direction = normal(3, seed=4).astype(np.float64)
    high, low = (loss(1.0, numbers["scale"] + s * 1e-5 * direction) for s in (1, -1))
    assert found["hone.gradient.scale"] @ direction == pytest.approx((high - low) / 2e-5, rel=1e-3)
    # What scales a whole channel goes out again: only epsilon lets some of it through.
    assert abs(found["hone.gradient.w"][0]) < 1e-3


def test_without_batch_statistics_the_kept_ones_stand_still() -> None:
    whole = normalization()
    whole.graph.node[1].attribute.append(helper.make_attribute("training_mode", 1))
    whole.graph.node[1].output.extend(["new_mean", "new_variance"])
    step = build_step(whole, loss=Loss("mse"), parameters=["w"])
    assert not step.updated
    x, target, numbers = normal(5, 3, 4), normal(5, 3, 4, seed=9), statistics_of(whole)
    found = run(step.model, feeds(x, target, w=numbers["w"]))
    mean, variance = numbers["mean"][:, None], numbers["variance"][:, None]
    y = (x - mean) / np.sqrt(variance + 1e-5) * numbers["scale"][:, None] + numbers["shift"][
        :, None
    ]
    assert found["hone.loss"] == pytest.approx(((y - target) ** 2).mean(), rel=1e-4)


def test_statistics_that_the_graph_computes_are_no_running_ones() -> None:
    whole = normalization(training_mode=1)
    centre = helper.make_node("ReduceMean", ["h", "axes"], ["mean"], keepdims=0)
    wide = helper.make_node("ReduceMean", ["h", "axes"], ["wide"])
    squares = [
        helper.make_node("Sub", ["h", "wide"], ["centred"]),
        helper.make_node("Mul", ["centred", "centred"], ["squared"]),
        helper.make_node("ReduceMean", ["squared", "axes"], ["variance"], keepdims=0),
    ]
    scaled, norm = whole.graph.node
    numbers = statistics_of(whole) | {"axes": np.array([0, 2])}
    computed = model(norm, {n: v for n, v in numbers.items() if n not in ("mean", "variance")})
    del computed.graph.node[:]
    computed.graph.node.extend([scaled, centre, wide, *squares, norm])
    parameters = ["w", "scale", "shift"]
    feeding = feeds(normal(5, 3, 4), normal(5, 3, 4, seed=9), **statistics_of(whole))
    stored = build_step(whole, loss=Loss("mse"), parameters=parameters, batch_statistics=True)
    expected = run(stored.model, feeding)
    step = build_step(computed, loss=Loss("mse"), parameters=parameters, batch_statistics=True)
    assert not step.updated
    found = run(step.model, {n: v for n, v in feeding.items() if n not in ("mean", "variance")})
    for name in ("hone.loss", *step.gradients):
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-4, atol=1e-5)
