"""Training in a device's own memory, here in copies of the arrays in this machine's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file
from step_models import batch, compiled, perceptron

from service.training.engines.provider_setting import CPU
from service.training.engines.runtime import onnxruntime, open_session
from service.training.engines.sessions import shares
from service.training.engines.sessions.call_graph import OPERATORS
from service.training.engines.sessions.device import DEVICES, DeviceMemory
from service.training.engines.sessions.device_training import DeviceBuffers
from service.training.engines.sessions.engine import SessionsEngine
from service.training.optimizer.options import OptimizerOptions

PROVIDERS = {CPU, "OpenVINOExecutionProvider"} & {*onnxruntime.get_available_providers()}
RECIPES = [
    OptimizerOptions("sgd", weight_decay=0.01),
    OptimizerOptions("sgd", momentum=0.9, nesterov=True, max_grad_norm=0.5),
    OptimizerOptions("adam", l2_sp=0.5, weight_decay=0.1),
    OptimizerOptions("adamw", weight_decay=0.1, ema_decay=0.9, rate_factors={"w0": 0.1}),
    OptimizerOptions("rmsprop", momentum=0.5, max_grad_norm=0.2, ema_decay=0.5, l2_sp=0.5),
    OptimizerOptions("lion", max_grad_value=0.01),
]
ADAMW = OptimizerOptions()


@pytest.fixture(params=sorted(PROVIDERS))
def provider(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    name = str(request.param)
    monkeypatch.setitem(DEVICES, name, "cpu")
    return name


def engines(
    folder: Path, provider: str, recipe: OptimizerOptions = ADAMW
) -> tuple[SessionsEngine, SessionsEngine]:
    """One that trains on the provider's device, and one as usual."""
    files = compiled(perceptron(), folder / "model", parameters=("w0", "w1", "b1"))
    there, here = (SessionsEngine(files, threads=2, optimizer_options=recipe) for _ in range(2))
    assert there.use((provider, {}), *batch(99)) is None
    assert isinstance(there._state.buffers, DeviceBuffers)
    return there, here


def train(engine: SessionsEngine, first: int, last: int, *, batches: int = 1) -> list[float]:
    losses = []
    for step in range(first, last):
        losses += [engine.train_batch(*batch(10 * step + number, 7)) for number in range(batches)]
        engine.step(0.05)
    return losses


def assert_same(there: SessionsEngine, here: SessionsEngine, folder: Path) -> None:
    saved = []
    for name, engine in (("there", there), ("here", here)):
        engine.save(folder / name)
        saved.append(load_file(folder / name))
    assert saved[0].keys() == saved[1].keys()
    for name, array in saved[0].items():
        np.testing.assert_allclose(array, saved[1][name], rtol=1e-4, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda each: each.optimizer)
def test_every_optimizer_ends_as_on_the_cpu(
    tmp_path: Path, provider: str, recipe: OptimizerOptions
) -> None:
    there, here = engines(tmp_path, provider, recipe)
    np.testing.assert_allclose(train(there, 0, 4), train(here, 0, 4), rtol=1e-4)
    assert_same(there, here, tmp_path)


@pytest.mark.parametrize("adds_up", [False, True])
def test_a_step_of_several_batches_and_of_small_runs_is_the_same(
    tmp_path: Path, provider: str, monkeypatch: pytest.MonkeyPatch, adds_up: bool
) -> None:
    if adds_up:
        monkeypatch.setattr(shares, "ELEMENTS_AT_ONCE", 1)
    there, here = engines(tmp_path, provider)
    there._state.rows = 3
    assert there._training.adds_up == adds_up
    there._training = there._sessions.step((provider, {}))
    for engine in (there, here):
        train(engine, 0, 2, batches=3)
        train(engine, 2, 4)
        train(engine, 4, 5, batches=2)
    assert_same(there, here, tmp_path)


def test_arrays_of_the_host_change_only_when_they_are_asked_for(
    tmp_path: Path, provider: str
) -> None:
    there, here = engines(tmp_path, provider, RECIPES[3])
    parameters = there._state.buffers.parameters
    before = parameters.copy()
    for engine in (there, here):
        train(engine, 0, 3)
    np.testing.assert_array_equal(parameters, before)
    (loss, output), (expected, right) = (each.evaluate(*batch(5)) for each in (there, here))
    assert loss == pytest.approx(expected, rel=1e-4)
    np.testing.assert_allclose(output, right, rtol=1e-4, atol=1e-6)
    assert not np.array_equal(parameters, before)


def test_it_goes_on_from_loaded_parameters_and_exports_after_its_end(
    tmp_path: Path, provider: str
) -> None:
    there, here = engines(tmp_path, provider)
    for name, engine in (("there", there), ("here", here)):
        engine.save(tmp_path / "first")
        train(engine, 0, 3)
        engine.load_parameters(tmp_path / "first")
        train(engine, 3, 5)
        engine.end_training()
        engine.export(tmp_path / f"{name}.onnx")
    x = batch(5)[0][0]
    outputs = [
        open_session(tmp_path / f"{name}.onnx", threads=1).run(None, {"x": x})[0]
        for name in ("there", "here")
    ]
    np.testing.assert_allclose(*outputs, rtol=1e-4, atol=1e-6)
    assert there._state.buffers.device is None


def test_a_provider_whose_optimizer_computes_otherwise_is_not_used(
    tmp_path: Path, provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = compiled(perceptron(), tmp_path / "model")
    asked, plain = (SessionsEngine(files, threads=2, optimizer_options=ADAMW) for _ in range(2))
    monkeypatch.setitem(OPERATORS, np.sqrt, ("Abs", {}))
    reason = asked.use((provider, {}), *batch(99))
    assert reason is not None
    assert reason.startswith("an optimizer's step on the parameters differs from the CPU's by")
    assert train(asked, 0, 3) == train(plain, 0, 3)


def test_a_part_of_an_array_is_found_in_the_arrays_copy(provider: str) -> None:
    device = DeviceMemory((provider, {}), threads=1)
    first, second = np.arange(8, dtype=np.float32), np.zeros(4, np.float32)
    for each in (first, second, first[2:]):
        device.hold(each)
    start = device.address(first)
    assert start is not None
    assert device.address(first[3:5]) == start + 12
    assert device.address(np.zeros(2)) is None
    first[...] = 0
    device.fetch(first)
    np.testing.assert_array_equal(first, np.arange(8))
