"""The engine of sessions trains as mathematics says, on any number of threads."""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from step_models import CLASSES, FEATURES, batch, compiled, perceptron

from service.training.engines.sessions.crew import Crew
from service.training.engines.sessions.engine import SessionsEngine
from service.training.errors import ArtifactsUnreadable
from service.training.optimizer.options import LossOptions, OptimizerOptions
from service.training.optimizer.rules import EMA

OpenEngine = Callable[..., SessionsEngine]
SGD = OptimizerOptions("sgd")
ALL_ALIKE = LossOptions(class_weights=(1.0,) * CLASSES)


@pytest.fixture
def open_engine(tmp_path: Path) -> OpenEngine:
    def make(recipe: OptimizerOptions = SGD, *, threads: int = 1, **kind: Any) -> SessionsEngine:
        options = kind.pop("loss_options", LossOptions())
        files = compiled(perceptron(), tmp_path / "model", **kind)
        return SessionsEngine(
            files, optimizer_options=recipe, threads=threads, loss_options=options
        )

    return make


class Reference:
    """The same perceptron in numpy, float64, with plain gradient descent."""

    def __init__(self) -> None:
        from onnx.numpy_helper import to_array

        weights = {each.name: to_array(each) for each in perceptron().graph.initializer}
        self.weights = {name: weight.astype(np.float64) for name, weight in weights.items()}

    def gradients(
        self, inputs: Sequence[Any], labels: Any, weights: Any = None
    ) -> tuple[float, dict[str, Any]]:
        x, w = inputs[0].astype(np.float64), self.weights
        share = np.ones(len(x)) if weights is None else weights.astype(np.float64)
        share = share / len(x)
        t = np.tanh(x @ w["w0"] + w["b0"])
        logits = t @ w["w1"] + w["b1"]
        p = np.exp(logits - logits.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        rows = np.arange(len(x))
        loss = float(-(share * np.log(p[rows, labels])).sum())
        p[rows, labels] -= 1
        d = p * share[:, None]
        h = d @ w["w1"].T * (1 - t * t)
        return loss, {"w1": t.T @ d, "b1": d.sum(0), "w0": x.T @ h, "b0": h.sum(0)}

    def train(self, inputs: Sequence[Any], labels: Any, rate: float, weights: Any = None) -> float:
        loss, gradients = self.gradients(inputs, labels, weights)
        for name, gradient in gradients.items():
            self.weights[name] = self.weights[name] - rate * gradient
        return loss


def assert_same(engine: SessionsEngine, reference: Reference) -> None:
    for name, values in engine._state.parameters.items():
        np.testing.assert_allclose(values, reference.weights[name], rtol=1e-4, atol=1e-6)


def digest(engine: SessionsEngine, path: Path) -> str:
    engine.save(path)
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_steps_are_those_of_the_mathematics_for_batches_of_any_size(
    open_engine: OpenEngine, threads: int
) -> None:
    engine, reference = open_engine(threads=threads), Reference()
    for number, size in enumerate((8, 7, 1, 2, 5, 64)):
        loss = engine.train_batch(*batch(number, size))
        engine.step(0.5)
        assert loss == pytest.approx(reference.train(*batch(number, size), 0.5), rel=1e-4)
        assert_same(engine, reference)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_step_of_several_batches_follows_the_mean_of_all_their_samples(
    open_engine: OpenEngine, threads: int
) -> None:
    engine, reference = open_engine(threads=threads), Reference()
    for number in range(3):
        parts = [batch(3 * number + each, size) for each, size in enumerate((4, 4, 1))]
        losses = [engine.train_batch(*part) for part in parts]
        engine.step(0.5)
        whole = np.concatenate([inputs[0] for inputs, _ in parts])
        labels = np.concatenate([each for _, each in parts])
        expected = reference.train([whole], labels, 0.5)
        assert np.average(losses, weights=(4, 4, 1)) == pytest.approx(expected, rel=1e-4)
        assert_same(engine, reference)


def test_a_step_after_one_of_several_batches_is_one_of_its_own_batch_only(
    open_engine: OpenEngine,
) -> None:
    engine = open_engine(threads=2)
    for number in range(2):
        engine.train_batch(*batch(number))
    engine.step(0.5)
    reference = Reference()
    reference.weights = {
        name: array.astype(np.float64) for name, array in engine._state.parameters.items()
    }
    engine.train_batch(*batch(2))
    engine.step(0.5)
    reference.train(*batch(2), 0.5)
    assert_same(engine, reference)


@pytest.mark.parametrize("threads", [1, 2])
def test_samples_count_as_their_weights_say(open_engine: OpenEngine, threads: int) -> None:
    engine, reference = open_engine(threads=threads), Reference()
    weights = np.array([0, 1, 2.5, 0.1, 0, 3, 1, 1], np.float32)
    inputs, labels = batch(0)
    loss = engine.train_batch(inputs, labels, weights)
    engine.step(0.5)
    assert loss == pytest.approx(reference.train(inputs, labels, 0.5, weights), rel=1e-4)
    engine.train_batch(inputs, labels)  # none given: all count the same
    engine.step(0.5)
    reference.train(inputs, labels, 0.5)
    assert_same(engine, reference)


def test_ignored_targets_are_no_part_of_the_mean(open_engine: OpenEngine) -> None:
    engine, reference = open_engine(by_class=True, loss_options=ALL_ALIKE), Reference()
    inputs, labels = batch(0)
    labels[:3] = -100
    loss = engine.train_batch(inputs, labels)
    engine.step(0.5)
    assert loss == pytest.approx(reference.train([inputs[0][3:]], labels[3:], 0.5), rel=1e-4)
    assert_same(engine, reference)


def test_a_batch_of_ignored_targets_alone_moves_nothing(open_engine: OpenEngine) -> None:
    engine = open_engine(by_class=True, loss_options=ALL_ALIKE)
    inputs, labels = batch(0)
    assert engine.train_batch(inputs, np.full_like(labels, -100)) == 0
    engine.step(0.5)
    assert_same(engine, Reference())


@pytest.mark.parametrize("threads", [1, 2])
def test_frozen_parameters_stay_as_they_are(open_engine: OpenEngine, threads: int) -> None:
    engine = open_engine(OptimizerOptions(), threads=threads, parameters=("w1", "b1"))
    before, _ = engine.evaluate(*batch(0))
    for _ in range(20):
        engine.train_batch(*batch(0))
        engine.step(0.05)
    assert list(engine._state.parameters) == ["w1", "b1"]
    assert engine.evaluate(*batch(0))[0] < before / 2


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("size", [1, 2, 9])
def test_an_evaluation_gives_the_outputs_in_the_order_of_the_samples(
    open_engine: OpenEngine, threads: int, size: int
) -> None:
    inputs, labels = batch(4, size)
    loss, outputs = open_engine(threads=threads).evaluate(inputs, labels)
    expected_loss, expected = open_engine().evaluate(inputs, labels)
    assert outputs.shape == (size, CLASSES)
    np.testing.assert_allclose(outputs, expected, rtol=1e-5, atol=1e-6)
    assert loss == pytest.approx(expected_loss, rel=1e-5)
    assert loss == pytest.approx(Reference().gradients(inputs, labels)[0], rel=1e-5)


def test_evaluations_of_different_sizes_follow_each_other(open_engine: OpenEngine) -> None:
    engine = open_engine(threads=2)
    first = [engine.evaluate(*batch(5, size))[1] for size in (8, 5, 1, 9)]
    for size, outputs in zip((8, 5, 1, 9), first, strict=True):
        np.testing.assert_array_equal(outputs, engine.evaluate(*batch(5, size))[1])
    assert [len(each) for each in first] == [8, 5, 1, 9]


def test_an_evaluation_between_batches_leaves_training_as_it_is(
    open_engine: OpenEngine, tmp_path: Path
) -> None:
    found = []
    for evaluates in (True, False):
        engine = open_engine(OptimizerOptions(), threads=2)
        for number in range(4):
            engine.train_batch(*batch(number))
            if evaluates:
                engine.evaluate(*batch(9, 5))
            if number % 2:
                engine.step(0.1)
        found.append(digest(engine, tmp_path / "checkpoint"))
    assert found[0] == found[1]


def train_and_digest(engine: SessionsEngine, path: Path) -> str:
    for number in range(6):
        engine.train_batch(*batch(number, 7))
        engine.step(0.1)
    return digest(engine, path)


def test_the_same_threads_give_the_same_bits_whichever_of_them_is_done_first(
    open_engine: OpenEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = OptimizerOptions(weight_decay=0.1, max_grad_norm=0.5)
    together = train_and_digest(open_engine(recipe, threads=3), tmp_path / "checkpoint")

    def backwards(_: Crew, calls: Sequence[Callable[[], object]]) -> None:
        for call in reversed(calls):
            call()

    monkeypatch.setattr(Crew, "run", backwards)
    one_by_one = train_and_digest(open_engine(recipe, threads=3), tmp_path / "checkpoint")
    assert together == one_by_one


def test_no_thread_is_made_for_one_thread(
    open_engine: OpenEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a thread was made")

    engine = open_engine()
    monkeypatch.setattr("threading.Thread", refuse)
    engine.train_batch(*batch(0))
    engine.step(0.1)
    with pytest.raises(AssertionError, match="a thread was made"):
        open_engine(threads=2).train_batch(*batch(0))


def test_a_plan_of_what_shares_memory_changes_no_bit(
    open_engine: OpenEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = open_engine(threads=2)
    monkeypatch.setattr("service.training.engines.sessions.model_sessions.PLANNED_BYTES", 0)
    found = open_engine(threads=2)
    for engine in (expected, found):
        for number in range(3):
            engine.train_batch(*batch(number))
            engine.step(0.1)
    assert digest(found, tmp_path / "found") == digest(expected, tmp_path / "expected")


def test_a_step_that_is_gone_is_told_as_such(tmp_path: Path) -> None:
    files = compiled(perceptron(), tmp_path)
    (files.optimized_step_model or files.step_model).unlink()
    with pytest.raises(ArtifactsUnreadable, match="cannot load the training step"):
        SessionsEngine(files, optimizer_options=SGD, threads=1)


def test_each_thread_has_a_session_of_its_own(open_engine: OpenEngine) -> None:
    """In one they take turns with the same memory, which moves between their processors."""
    sessions = open_engine(threads=3)._training.sessions
    assert len({id(session) for session in sessions}) == 3


def test_the_engine_names_itself_and_the_runtime(open_engine: OpenEngine) -> None:
    from service.training.engines.runtime import onnxruntime

    assert open_engine().name == f"sessions 1 on onnxruntime {onnxruntime.__version__}"
    assert open_engine().output == "logits"


def test_the_moving_average_is_what_is_measured(open_engine: OpenEngine) -> None:
    engine = open_engine(OptimizerOptions("sgd", ema_decay=0.5))
    reference = Reference()
    averages: dict[str, Any] = {}
    for number in range(3):
        engine.train_batch(*batch(number))
        engine.step(0.5)
        reference.train(*batch(number), 0.5)
        averages = {
            name: 0.5 * averages.get(name, values) + 0.5 * values
            for name, values in reference.weights.items()
        }
    assert_same(engine, reference)
    reference.weights = averages
    assert engine.evaluate(*batch(9))[0] == pytest.approx(
        reference.gradients(*batch(9))[0], rel=1e-4
    )


def test_before_the_first_step_the_average_is_the_model_as_it_was(open_engine: OpenEngine) -> None:
    engine = open_engine(OptimizerOptions(ema_decay=0.9))
    assert engine.evaluate(*batch(1))[0] == open_engine().evaluate(*batch(1))[0]


def test_inputs_need_not_lie_in_one_piece(open_engine: OpenEngine) -> None:
    (x,), labels = batch(0)
    scattered = np.asfortranarray(x)
    assert scattered.shape == (8, FEATURES)
    assert open_engine().train_batch([scattered], labels) == open_engine().train_batch([x], labels)


def test_what_only_steps_need_is_freed_before_the_export(open_engine: OpenEngine) -> None:
    engine = open_engine(OptimizerOptions("adamw", ema_decay=0.5), threads=2)
    inputs, labels = batch(9)
    engine.train_batch(inputs, labels)
    engine.step(0.1)
    before = engine.evaluate(inputs, labels)[0]
    buffers = engine._state.buffers
    needed = [*buffers.gradients, *(buffers.slots[name] for name in buffers.slots if name != EMA)]
    gone = [weakref.ref(each) for each in needed]
    del needed
    engine.end_training()
    assert not any(each() is not None for each in gone)
    assert engine.evaluate(inputs, labels)[0] == before
