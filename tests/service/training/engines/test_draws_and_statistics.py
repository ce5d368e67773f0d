"""What a step is fed with beside samples: random numbers, and statistics that it moves itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.helper import make_node, make_tensor_value_info
from onnx.numpy_helper import from_array
from step_models import FLOAT, model_of

from service.training.engines.compilation import compile_model
from service.training.engines.manifest import Draw, Files, draw_all
from service.training.engines.runtime import open_session
from service.training.engines.sessions.engine import SessionsEngine
from service.training.graph.step import StepModel
from service.training.loss import Loss
from service.training.optimizer.options import OptimizerOptions

SGD = OptimizerOptions("sgd")
DRAWS = [Draw("a", (-1, 3)), Draw("b", (2,))]


def test_draws_depend_on_seed_batch_and_input_and_on_nothing_else() -> None:
    first = draw_all(DRAWS, seed=5, batch=0, rows=4)
    again = draw_all(DRAWS, seed=5, batch=0, rows=4)
    for name in "ab":
        np.testing.assert_array_equal(first[name], again[name])
    others = [
        draw_all(DRAWS, seed=6, batch=0, rows=4)["b"],
        draw_all(DRAWS, seed=5, batch=1, rows=4)["b"],
        first["a"].reshape(-1)[:2],
    ]
    assert not any(np.array_equal(first["b"], other) for other in others)
    assert (first["a"].shape, first["b"].shape) == ((4, 3), (2,))
    assert first["a"].dtype == np.float32


def test_draws_are_uniform() -> None:
    (values,) = draw_all([Draw("a", (-1,))], seed=2**63 - 1, batch=0, rows=100_000).values()
    assert 0 <= values.min() < 1e-4
    assert 1 - 1e-4 < values.max() < 1
    assert abs(values.mean() - 0.5) < 0.005


@pytest.fixture
def masked(tmp_path: Path) -> Files:
    """Scores x·w, each times a random number: the loss is their sum, times the scale."""
    w = from_array(np.ones((3, 1), np.float32), "w")
    inference = model_of(
        [make_node("MatMul", ["x", "w"], ["y"])], {"x": ["batch", 3]}, {"y": ["batch", 1]}, [w]
    )
    nodes = [
        make_node("Mul", ["x", "hone.random.mask"], ["masked"]),
        make_node("MatMul", ["masked", "w"], ["y"]),
        make_node("ReduceSum", ["y"], ["sum"], keepdims=0),
        make_node("Mul", ["sum", "hone.loss_scale"], ["hone.loss"]),
        make_node("ReduceSum", ["masked", "first"], ["columns"], keepdims=0),
        make_node("Mul", ["columns", "hone.loss_scale"], ["flat"]),
        make_node("Unsqueeze", ["flat", "last"], ["hone.gradient.w"]),
    ]
    axes = [from_array(np.array([each]), name) for each, name in ((0, "first"), (1, "last"))]
    step = model_of(
        nodes,
        {"x": ["n", 3], "hone.loss_scale": [], "hone.random.mask": ["n", 3], "w": [3, 1]},
        {"hone.loss": [], "hone.gradient.w": [3, 1]},
        axes,
    )
    return compiled(step, inference, tmp_path, random=(Draw("hone.random.mask", (-1, 3)),))


def compiled(
    step: onnx.ModelProto,
    inference: onnx.ModelProto,
    directory: Path,
    *,
    random: tuple[Draw, ...] = (),
    updated: dict[str, str] | None = None,
) -> Files:
    evaluation = onnx.ModelProto()
    evaluation.CopyFrom(inference)
    names = ["w", *(updated or {})]
    kept = [each for each in inference.graph.initializer if each.name not in names]
    del evaluation.graph.initializer[:]
    evaluation.graph.initializer.extend(kept)
    evaluation.graph.node.append(make_node("Identity", ["hone.loss_scale"], ["hone.loss"]))
    shapes = {each.name: list(each.dims) for each in inference.graph.initializer}
    fed = {"hone.loss_scale": [], **{name: shapes[name] for name in names}}
    evaluation.graph.input.extend(
        make_tensor_value_info(name, FLOAT, shape) for name, shape in fed.items()
    )
    evaluation.graph.output.insert(0, make_tensor_value_info("hone.loss", FLOAT, []))
    made = StepModel(
        model=step,
        loss=Loss("output"),
        inputs=("x",),
        target=None,
        random=random,
        parameters=("w",),
        updated=updated or {},
        batch_statistics=bool(updated),
    )
    return compile_model(made, evaluation, inference, output="y", directory=directory)


def test_a_step_draws_the_same_numbers_on_any_number_of_threads(masked: Files) -> None:
    x = np.ones((5, 3), np.float32)
    found = []
    for threads in (1, 2, 3):
        engine = SessionsEngine(masked, optimizer_options=SGD, threads=threads)
        for step in range(2):
            engine.seed(step)
            losses = [engine.train_batch([x], x), engine.train_batch([x], x)]
            engine.step(0.1)
        assert losses[0] != losses[1]
        found.append(engine.evaluate([x], x)[1])
    expected = np.ones(3)
    for step in range(2):
        drawn = [
            draw_all([Draw("a", (-1, 3))], seed=step, batch=each, rows=5)["a"] for each in (0, 1)
        ]
        expected -= 0.1 * np.concatenate(drawn).mean(axis=0)
    for each in found:
        np.testing.assert_allclose(each[:, 0], expected.sum(), rtol=1e-5)


@pytest.fixture
def centred(tmp_path: Path) -> Files:
    """Like a BatchNorm that trains: the step moves `mean` half of the way to the batch's own."""
    weights = [
        from_array(np.ones((3, 1), np.float32), "w"),
        from_array(np.zeros(3, np.float32), "mean"),
    ]
    inference = model_of(
        [make_node("Sub", ["x", "mean"], ["c"]), make_node("MatMul", ["c", "w"], ["y"])],
        {"x": ["batch", 3]},
        {"y": ["batch", 1]},
        weights,
    )
    nodes = [
        make_node("ReduceMean", ["x"], ["own"], axes=[0], keepdims=0),
        make_node("Add", ["own", "mean"], ["twice"]),
        make_node("Mul", ["twice", "half"], ["hone.updated.mean"]),
        make_node("Sub", ["x", "own"], ["c"]),
        make_node("MatMul", ["c", "w"], ["y"]),
        make_node("ReduceSum", ["y"], ["sum"], keepdims=0),
        make_node("Mul", ["sum", "hone.loss_scale"], ["hone.loss"]),
        make_node("Identity", ["w"], ["hone.gradient.w"]),
    ]
    step = model_of(
        nodes,
        {"x": ["n", 3], "hone.loss_scale": [], "w": [3, 1], "mean": [3]},
        {"hone.loss": [], "hone.gradient.w": [3, 1], "hone.updated.mean": [3]},
        [from_array(np.array(0.5, np.float32), "half")],
    )
    return compiled(step, inference, tmp_path, updated={"mean": "hone.updated.mean"})


def test_running_statistics_are_of_whole_batches_and_belong_to_the_state(
    centred: Files, tmp_path: Path
) -> None:
    engine = SessionsEngine(centred, optimizer_options=SGD, threads=2)
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    for _ in range(2):
        engine.train_batch([x], x)
        engine.step(0.0)
    expected = (x - 0.75 * x.mean(axis=0)).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(engine.evaluate([x], x)[1], expected, rtol=1e-5)
    engine.save(tmp_path / "checkpoint")
    resumed = SessionsEngine(
        centred, optimizer_options=SGD, threads=2, checkpoint=tmp_path / "checkpoint"
    )
    np.testing.assert_array_equal(resumed.evaluate([x], x)[1], engine.evaluate([x], x)[1])
    engine.export(tmp_path / "model.onnx")
    (output,) = open_session(tmp_path / "model.onnx", threads=1).run(None, {"x": x})
    np.testing.assert_allclose(output, expected, rtol=1e-5)


def test_what_is_fed_or_updated_at_each_step_is_not_stepped_on_in_series(
    masked: Files, request: pytest.FixtureRequest
) -> None:
    assert SessionsEngine(masked, optimizer_options=SGD, threads=1).series(4) is None
    centred: Files = request.getfixturevalue("centred")  # in the same folder
    assert SessionsEngine(centred, optimizer_options=SGD, threads=1).series(4) is None
