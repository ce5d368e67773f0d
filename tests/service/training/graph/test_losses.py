"""Losses and their gradients, and the step that is built on them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from gradients import Array, reference, run
from onnx import helper, numpy_helper

from service.training.errors import GraphRefused
from service.training.graph.step import build_evaluation, build_step
from service.training.loss import TEACHER, Loss
from service.training.protocol.serialization import build
from service.training.tasks import TASKS
from service.training.tasks.boxes import assigned
from service.training.tasks.detection import detection_loss
from service.training.teacher import softened
from storage.records.signatures import IGNORED


def forward(*shape: int, kind: int = onnx.TensorProto.DOUBLE) -> onnx.ModelProto:
    """logits = x + w, where x has shape (batch, *shape) and w has shape `shape`."""
    dims = ["batch", *shape]
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["logits"], name="add")],
        "forward",
        [helper.make_tensor_value_info("x", kind, dims)],
        [helper.make_tensor_value_info("logits", kind, dims)],
        [numpy_helper.from_array(np.zeros(shape, dtype), "w")],
    )
    imports = [helper.make_opsetid("", 18)]
    return helper.make_model(graph, opset_imports=imports, ir_version=9)


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape)


def loss_and_gradient(
    loss: Loss, x: Array, target: Array, w: Array, scale: float | Array
) -> tuple[float, Array]:
    step = build_step(forward(*x.shape[1:]), loss=loss, parameters=["w"])
    # The reference evaluator takes what it is given; targets of the graph are float32.
    feeds = {"x": x, "target": target, "hone.loss_scale": scales(scale, x.ndim), "w": w}
    if loss.by_class:
        vectors = loss.class_vectors(x.shape[loss.class_axis])
        feeds |= {name: vector.astype(np.float64) for name, vector in vectors.items()}
        feeds[TEACHER] = np.zeros_like(x)
    value, gradient = reference(step.model).run(None, feeds)
    return float(value), gradient


def scales(scale: float | Array, rank: int) -> Array:
    """One for all samples, or one for each."""
    return np.array(scale, np.float64).reshape(-1, *[1] * (rank - 1))


REGRESSIONS = {
    "mse": lambda o, t: (o - t) ** 2,
    "l1": lambda o, t: np.abs(o - t),
    "huber": lambda o, t: np.where(np.abs(o - t) < 1, 0.5 * (o - t) ** 2, np.abs(o - t) - 0.5),
    "bce_with_logits": lambda o, t: np.logaddexp(0, o) - o * t,
}


@pytest.mark.parametrize("name", REGRESSIONS)
@pytest.mark.parametrize("shape", [(3,), (2, 3), ()])
def test_a_loss_of_numbers_is_their_mean_and_has_its_gradient(
    name: str, shape: tuple[int, ...]
) -> None:
    x, w = normal(4, *shape, seed=1), normal(*shape, seed=2)
    target = np.random.default_rng(3).uniform(size=(4, *shape))
    loss = Loss(name)
    value, gradient = loss_and_gradient(
        loss, x, target, w, 1 / TASKS[loss.name].weight(loss, target)
    )
    expected = REGRESSIONS[name](x + w, target)
    assert value == pytest.approx(expected.mean(), rel=1e-6)
    step = 1e-6 * normal(*shape, seed=4)
    high, low = (REGRESSIONS[name](x + w + s * step, target).mean() for s in (1, -1))
    assert (gradient * step).sum() * 2 == pytest.approx(high - low, rel=1e-4)


@pytest.mark.parametrize("name", REGRESSIONS)
def test_a_number_that_is_not_known_has_neither_loss_nor_gradient(name: str) -> None:
    x, w = normal(4, 3, seed=1), normal(3, seed=2)
    target = np.random.default_rng(3).uniform(size=(4, 3))
    target[[0, 1, 1], [2, 0, 2]] = np.nan
    loss = Loss(name, has_unknown=True)
    scale = 1 / TASKS[name].weight(loss, target)
    value, gradient = loss_and_gradient(loss, x, target, w, scale)
    assert value == pytest.approx(np.nanmean(REGRESSIONS[name](x + w, target)), rel=1e-6)
    step = 1e-6 * normal(3, seed=4)
    high, low = (np.nanmean(REGRESSIONS[name](x + w + s * step, target)) for s in (1, -1))
    assert (gradient * step).sum() * 2 == pytest.approx(high - low, rel=1e-4)


def expected_cross_entropy(logits: Array, target: Array, loss: Loss) -> float:
    """torch.nn.functional.cross_entropy, in numpy. logits: classes last."""
    logs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    weights = np.array(loss.class_weights or np.ones(logits.shape[-1]))
    kept = target != IGNORED
    index = np.where(kept, target, 0)
    of_target = -weights[index] * np.take_along_axis(logs, index[..., None], -1)[..., 0]
    smooth = -(weights * logs).sum(-1) / logits.shape[-1]
    each = (1 - loss.label_smoothing) * of_target + loss.label_smoothing * smooth
    return float((each * kept).sum() / (weights[index] * kept).sum())


LOSSES: list[dict[str, Any]] = [
    {},
    {"by_class": True},
    {"by_class": True, "label_smoothing": 0.1},
    {"by_class": True, "class_weights": (1.0, 0.5, 2.0)},
    {"by_class": True, "class_weights": (1.0, 0.5, 2.0), "label_smoothing": 0.2},
]


@pytest.mark.parametrize("options", LOSSES)
@pytest.mark.parametrize("positions", [(), (2,), (2, 2)])
@pytest.mark.parametrize("last", [False, True])
def test_cross_entropy_is_that_of_pytorch(
    options: dict[str, Any], positions: tuple[int, ...], last: bool
) -> None:
    loss = Loss("cross_entropy", class_axis=-1 if last else 1, **options)
    shape = (*positions, 3) if last else (3, *positions)
    x, w = normal(5, *shape, seed=1), normal(*shape, seed=2)
    target = np.random.default_rng(3).integers(0, 3, (5, *positions))
    target.flat[1] = IGNORED if positions else 0
    value, gradient = loss_and_gradient(
        loss, x, target, w, 1 / TASKS[loss.name].weight(loss, target)
    )

    def expected(logits: Array) -> float:
        return expected_cross_entropy(logits if last else np.moveaxis(logits, 1, -1), target, loss)

    assert value == pytest.approx(expected(x + w), rel=1e-6)
    step = 1e-6 * normal(*shape, seed=4)
    high, low = (expected(x + w + s * step) for s in (1, -1))
    assert (gradient * step).sum() * 2 == pytest.approx(high - low, rel=1e-4)


def test_the_loss_of_boxes_is_the_mean_over_photos_and_has_its_gradient() -> None:
    """Against the same in numpy, which the gate measures. The last photo shows nothing."""
    x, w = normal(3, 6, 4, 5, seed=1), normal(6, 4, 5, seed=2)
    boxes = np.full((3, 2, 5), -1.0)
    boxes[0] = [[0.1, 0.2, 0.6, 0.5, 1], [0.5, 0.5, 0.3, 0.3, 0]]
    boxes[1, 0] = [0, 0, 0.9, 0.9, 0]
    maps, loss = assigned(boxes, x.shape[1:]).astype(np.float64), Loss("detection")
    for scale in (1 / 3, np.array([0.5, 2, 0])):
        value, gradient = loss_and_gradient(loss, x, maps, w, scale)

        def expected(w: Array, scale: float | Array = scale) -> float:
            return float((detection_loss(x + w, boxes) * scale).sum())

        assert value == pytest.approx(expected(w), rel=1e-6)
        step = 1e-6 * normal(*w.shape, seed=4)
        high, low = (expected(w + s * step) for s in (1, -1))
        assert (gradient * step).sum() * 2 == pytest.approx(high - low, rel=1e-4)


@pytest.mark.parametrize("name", ["cross_entropy", "mse"])
def test_weights_of_samples_multiply_their_losses(name: str) -> None:
    x, w = normal(3, 4, seed=1), normal(4, seed=2)
    target = np.array([0, 3, 2]) if name == "cross_entropy" else normal(3, 4, seed=3)
    weight = np.array([1.0, 0.0, 2.5])
    whole = loss_and_gradient(Loss(name), x, target, w, weight)
    parts = [
        loss_and_gradient(Loss(name), x[i : i + 1], target[i : i + 1], w, 1.0) for i in range(3)
    ]
    assert whole[0] == pytest.approx(sum(v * p[0] for v, p in zip(weight, parts, strict=True)))
    np.testing.assert_allclose(whole[1], sum(v * p[1] for v, p in zip(weight, parts, strict=True)))


def test_losses_and_gradients_of_halves_add_up() -> None:
    x, w, target = normal(6, 4, seed=1), normal(4, seed=2), np.array([0, 3, 2, 1, 0, 2])
    loss = Loss("cross_entropy")
    whole = loss_and_gradient(loss, x, target, w, 1 / 6)
    halves = [loss_and_gradient(loss, x[s], target[s], w, 1 / 6) for s in (slice(2), slice(2, 6))]
    assert whole[0] == pytest.approx(halves[0][0] + halves[1][0])
    np.testing.assert_allclose(whole[1], halves[0][1] + halves[1][1])


def test_an_output_may_be_the_loss_itself() -> None:
    model = forward(3)
    model.graph.node.append(helper.make_node("ReduceMean", ["logits"], ["l"], keepdims=0, name="m"))
    model.graph.output.append(helper.make_tensor_value_info("l", onnx.TensorProto.DOUBLE, []))
    step = build_step(model, loss=Loss("output"), parameters=["w"], output="l")
    assert step.batch_statistics
    assert step.target is None
    feeds = {"x": normal(4, 3), "w": normal(3, seed=1), "hone.loss_scale": np.array(0.25)}
    value, gradient = reference(step.model).run(None, feeds)
    assert float(value) == pytest.approx((feeds["x"] + feeds["w"]).mean())
    np.testing.assert_allclose(gradient, np.full(3, 1 / 3))


def test_the_step_says_what_it_takes_and_gives_and_runs_on_the_engine() -> None:
    model = forward(3, kind=onnx.TensorProto.FLOAT)
    step = build_step(model, loss=Loss("cross_entropy"), parameters=["w"])
    names = [v.name for v in step.model.graph.input]
    assert names == ["x", "target", "hone.loss_scale", "w"]
    assert [v.name for v in step.model.graph.output] == ["hone.loss", "hone.gradient.w"]
    onnx.checker.check_model(step.model, full_check=True)
    rng = np.random.default_rng(0)
    feeds = {
        "x": rng.normal(size=(4, 3)).astype(np.float32),
        "target": np.array([0, 1, 2, 0]),
        "hone.loss_scale": np.full((1, 1), 0.25, np.float32),
        "w": np.zeros(3, np.float32),
    }
    trained = run(step.model, feeds)
    evaluation = build_evaluation(model, loss=Loss("cross_entropy"), parameters=["w"])
    evaluated = run(evaluation, feeds)
    np.testing.assert_allclose(trained["hone.loss"], evaluated["hone.loss"], rtol=1e-6)
    np.testing.assert_array_equal(evaluated["logits"], feeds["x"])


def test_a_step_by_class_is_the_one_that_its_loss_alone_gives() -> None:
    model, by_class = forward(3), Loss("cross_entropy", by_class=True)
    step = build_step(model, loss=Loss("cross_entropy"), parameters=["w"], by_class=True)
    assert step.by_class is not None
    vectors = {f"hone.class_{name}": normal(3, seed=2) for name in ("on", "off")}
    feeds = {"x": normal(4, 3), "w": normal(3), TEACHER: normal(4, 3, seed=4), **vectors}
    feeds |= {"target": np.array([0, 1, 2, 0]), "hone.loss_scale": scales(0.25, 2)}
    alone = build_step(model, loss=by_class, parameters=["w"])
    found, expected = (reference(each.model).run(None, feeds) for each in (step.by_class, alone))
    np.testing.assert_array_equal(found[1], expected[1])
    assert (found[0], step.by_class.loss) == (expected[0], by_class)


@pytest.mark.parametrize("place", ["input", "inner"])
def test_the_model_may_have_a_tensor_called_target(place: str) -> None:
    model = forward(3, kind=onnx.TensorProto.FLOAT)
    if place == "input":
        model.graph.input[0].name = model.graph.node[0].input[0] = "target"
    else:
        model.graph.node.insert(0, helper.make_node("Neg", ["x"], ["target"], name="negative"))
        model.graph.node[1].input[0] = "target"
    step = build_step(model, loss=Loss("cross_entropy"), parameters=["w"])
    feeds = {
        model.graph.input[0].name: normal(2, 3).astype(np.float32),
        str(step.target): np.array([0, 2]),
        "hone.loss_scale": np.full((1, 1), 0.5, np.float32),
        "w": np.zeros(3, np.float32),
    }
    assert np.any(run(step.model, feeds)["hone.gradient.w"])


def test_every_operator_without_a_gradient_is_named_at_once() -> None:
    model = forward(3)
    nodes = [
        helper.make_node("Hardmax", ["logits"], ["h"], name="first"),
        helper.make_node("Det", ["h2"], ["d"], name="second"),
    ]
    nodes.insert(1, helper.make_node("Expand", ["h", "shape"], ["h2"], name="between"))
    model.graph.initializer.append(numpy_helper.from_array(np.array([3, 1, 3]), "shape"))
    model.graph.node.extend(nodes)
    model.graph.output[0].CopyFrom(helper.make_empty_tensor_value_info("d"))
    with pytest.raises(GraphRefused) as refused:
        build_step(model, loss=Loss("output"), parameters=["w"], output="d")
    told = " ".join(problem.detail for problem in refused.value.problems)
    assert len(refused.value.problems) == 2
    assert '"first" (Hardmax)' in told
    assert '"second" (Det)' in told


def test_a_loss_of_an_earlier_manifest_is_read_without_what_losses_no_longer_have() -> None:
    earlier = {"name": "huber", "delta": 1.0, "distillation": 0.0, "class_weights": None}
    assert build(Loss, earlier) == Loss("huber")


@pytest.mark.parametrize("shape", [(5, 4), (3, 4, 2)])
def test_the_gradient_of_a_distillation_is_that_of_its_definition(shape: tuple[int, ...]) -> None:
    x, w = normal(*shape), normal(*shape[1:], seed=1)
    target = np.arange(x.size // 4).reshape(shape[0], *shape[2:]) % 4
    known = np.array([True, True, False, True])
    teacher = softened(normal(*shape, seed=2), known, 1.5).astype(np.float64)
    loss = Loss("cross_entropy", by_class=True)
    step = build_step(forward(*shape[1:]), loss=loss, parameters=["w"])
    vectors = Loss("cross_entropy").class_vectors(4)
    feeds = {"x": x, "target": target, "hone.loss_scale": scales(0.2, x.ndim), "w": w}
    feeds |= {name: vector.astype(np.float64) for name, vector in vectors.items()}

    def gradient(teacher: Array) -> Array:
        return reference(step.model).run(None, {**feeds, TEACHER: teacher})[1]

    def kept(w: Array) -> float:
        """T² weight KL(teacher, student) at T = 2, but for what does not depend on w."""
        t, z = teacher, (x + w) / 2
        logs = z - np.log(np.exp(z).sum(axis=1, keepdims=True))
        positions = int(np.prod(shape[2:]))
        return float(0.2 * 4 * -(t * logs).sum() / positions)

    found = gradient(teacher) - gradient(np.zeros(shape))
    for place in np.ndindex(*w.shape):
        step_ = np.zeros_like(w)
        step_[place] = 1e-5
        slope = (kept(w + step_) - kept(w - step_)) / 2e-5
        assert found[place] == pytest.approx(slope, rel=1e-4, abs=1e-6)
    assert np.all(teacher[:, 2] == 0)  # of the class that is not known
