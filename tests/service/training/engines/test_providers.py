"""Another execution provider is used where its step agrees with the CPU's, and only there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from step_models import batch, compiled, perceptron

from service.training.engines.provider_setting import Provider
from service.training.engines.runtime import CPU, onnxruntime, open_session, provider_chain
from service.training.engines.sessions import shares
from service.training.engines.sessions.binding import Binding
from service.training.engines.sessions.crew import Crew
from service.training.engines.sessions.device import ProviderBinding
from service.training.engines.sessions.engine import SessionsEngine
from service.training.engines.sessions.providers import adopt, disagreement
from service.training.engines.sessions.shares import Bind, Shares
from service.training.optimizer.options import OptimizerOptions

CUDA, OPENVINO = "CUDAExecutionProvider", "OpenVINOExecutionProvider"
OTHERS = [provider for provider in onnxruntime.get_available_providers() if provider != CPU]


def open_engine(folder: Path) -> SessionsEngine:
    return SessionsEngine(
        compiled(perceptron(), folder), optimizer_options=OptimizerOptions("sgd"), threads=2
    )


def train(engine: SessionsEngine, steps: int = 4) -> list[float]:
    losses = []
    for number in range(steps):
        inputs, target = batch(number)
        losses.append(engine.train_batch(inputs, target))
        engine.step(0.1)
    return losses


def test_one_that_the_runtime_lacks_is_not_used_and_leaves_no_trace(tmp_path: Path) -> None:
    asked, plain = open_engine(tmp_path / "asked"), open_engine(tmp_path / "plain")
    reason = asked.use(("NoSuchExecutionProvider", {}), *batch(9))
    assert reason is not None
    assert CPU in reason
    assert train(asked) == train(plain)
    for name, engine in (("asked", asked), ("plain", plain)):
        engine.save(tmp_path / f"{name}.checkpoint")
    assert (tmp_path / "asked.checkpoint").read_bytes() == (
        tmp_path / "plain.checkpoint"
    ).read_bytes()
    assert asked.name == plain.name


@pytest.mark.skipif(not OTHERS, reason="this onnxruntime has the CPU's execution provider alone")
@pytest.mark.parametrize("provider", OTHERS)
def test_one_that_agrees_is_used_and_named(tmp_path: Path, provider: str) -> None:
    asked, plain = open_engine(tmp_path / "asked"), open_engine(tmp_path / "plain")
    assert asked.use((provider, {}), *batch(9)) is None
    assert asked.name == f"{plain.name}, {provider}"
    np.testing.assert_allclose(train(asked), train(plain), rtol=1e-3)


@pytest.mark.skipif(OPENVINO not in OTHERS, reason="this onnxruntime has no OpenVINO")
def test_an_option_that_a_provider_lacks_is_named(tmp_path: Path) -> None:
    reason = open_engine(tmp_path).use((OPENVINO, {"nonsense": "1"}), *batch(9))
    assert reason is not None
    assert "nonsense" in reason


def test_another_provider_takes_a_whole_batch_in_one_session(tmp_path: Path) -> None:
    """Here on the provider that each runtime has; on the CPU, every thread has a session."""
    asked, plain = open_engine(tmp_path / "asked"), open_engine(tmp_path / "plain")
    assert asked.use((CPU, {"a": "1"}), *batch(9)) is None
    for engine, count in ((asked, 1), (plain, 2)):
        assert len(engine._training.sessions) == count
        assert len(engine._state.buffers.gradients) == count
    np.testing.assert_allclose(train(asked), train(plain), rtol=1e-5)
    assert asked.name == f"{plain.name}, {CPU} (a=1)"


def test_providers_with_threads_of_their_own_get_those_of_the_job() -> None:
    assert provider_chain(None, 2) == [(CPU, {})]
    assert provider_chain((OPENVINO, {}), 2) == [(OPENVINO, {"num_of_threads": "2"}), (CPU, {})]
    chosen = {"num_of_threads": "1"}
    assert provider_chain((OPENVINO, chosen), 2) == [(OPENVINO, chosen), (CPU, {})]
    assert provider_chain((CUDA, {}), 2) == [(CUDA, {}), (CPU, {})]


def test_one_whose_gradients_are_others_is_not_used(tmp_path: Path) -> None:
    files = compiled(perceptron(), tmp_path)

    def opened(provider: Provider) -> Shares:
        session = open_session(files.step_model, threads=1, provider=provider)
        return Shares([session], lambda *_: None, crew=Crew())

    right = {"the loss": np.ones((), np.float32), "w": np.full(3, 2, np.float32)}
    wrong = {**right, "w": right["w"] * np.float32(1.1)}
    parameters = np.ones(3, np.float32)
    assert adopt((CPU, {}), opened, lambda _: right, right, parameters=parameters)[0] is not None
    runs, reason = adopt((CPU, {}), opened, lambda _: wrong, right, parameters=parameters)
    assert runs is None
    assert reason == "w differs from the CPU's by 0.2, where numbers reach 2"


def test_one_that_computes_with_what_parameters_were_when_bound_is_not_used(
    tmp_path: Path,
) -> None:
    """As the runtime does where parameters are copied to a device, see `ProviderBinding`."""
    engine = open_engine(tmp_path)
    (x,), labels = batch(9)
    state, memory = engine._state, engine._sessions.memory()

    def opened(bind: Bind) -> Callable[[Provider], Shares]:
        path = engine._files.step_model
        return lambda each: Shares(
            [open_session(path, threads=1, provider=each)], bind, crew=Crew()
        )

    def copied(binding: Binding, share: int) -> None:
        memory.bind(binding, share)
        for name, array in state.parameters.items():
            binding.read(name, array.copy())

    def step(runs: Shares) -> dict[str, Any]:
        return engine._results([x], labels, runs)

    before, expected = state.buffers.parameters.copy(), step(engine._training)
    for bind, is_used in ((memory.bind, True), (copied, False)):
        runs, reason = adopt(
            (CPU, {}), opened(bind), step, expected, parameters=state.buffers.parameters
        )
        assert (runs is not None) == is_used, reason
        np.testing.assert_array_equal(state.buffers.parameters, before)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (MemoryError(), "MemoryError"),
        (RuntimeError("at line 3:\nno kernel\n\n"), "at line 3: no kernel"),
        (RuntimeError("a" * 1000 + ":\nno kernel"), f"… {'a' * 289}: no kernel"),
    ],
)
def test_one_that_cannot_run_the_step_is_not_used(
    tmp_path: Path, error: Exception, reason: str
) -> None:
    engine = open_engine(tmp_path)

    def step(_: Shares) -> dict[str, Any]:
        raise error

    parameters = engine._state.buffers.parameters
    answer = adopt((CPU, {}), engine._sessions.step, step, {}, parameters=parameters)
    assert answer == (None, reason)


@pytest.mark.parametrize("error", [MemoryError, RuntimeError])
def test_one_that_fails_amid_a_step_leaves_no_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    monkeypatch.setattr(shares, "ELEMENTS_AT_ONCE", 1)  # the step adds to gradients
    asked, plain = open_engine(tmp_path / "asked"), open_engine(tmp_path / "plain")

    def run(_: Binding) -> None:
        asked._state.buffers.gradients[0].fill(1)
        raise error("no room")

    monkeypatch.setattr(ProviderBinding, "run", run)
    assert asked.use((CPU, {}), *batch(9)) == "no room"
    assert asked._state.rows is None
    assert train(asked) == train(plain)


def test_what_is_no_number_agrees_with_nothing() -> None:
    assert disagreement({"w": np.ones(2)}, {"w": np.array([1, np.nan])}) is not None
    assert disagreement({"w": np.zeros(2)}, {"w": np.full(2, 1e-7)}) is None
