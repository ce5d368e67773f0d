"""Hand-made graphs, and what the engine makes of them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from graph_parts import normal
from onnx import TensorProto, helper, numpy_helper
from preparing import accept, graphs, order, refuse  # noqa: F401 - fixtures of this folder
from safetensors.numpy import load_file

from service.training.engines.opening import open_engine
from service.training.optimizer.options import OptimizerOptions
from service.training.protocol.messages.preparation import Prepared
from service.training.protocol.messages.shared import Artifacts

ROWS = 4


@pytest.fixture
def engine_name() -> str:
    """What models are prepared for here."""
    return "sessions"


class Trainer:
    """The engine on a prepared model, one thread, plain SGD."""

    def __init__(self, artifacts: Artifacts) -> None:
        self.engine = open_engine(
            artifacts, output="", threads=1, optimizer_options=OptimizerOptions("sgd")
        )

    def step(self, *feeds: np.ndarray, learning_rate: float) -> float:
        *inputs, target = feeds
        loss = self.engine.train_batch(inputs, target)
        self.engine.step(learning_rate)
        return loss

    def evaluate(self, *feeds: np.ndarray) -> tuple[float, np.ndarray]:
        *inputs, target = feeds
        return self.engine.evaluate(inputs, target)

    def parameters(self) -> dict[str, np.ndarray]:
        """Running statistics included."""
        with tempfile.TemporaryDirectory() as folder:
            self.engine.save(Path(folder) / "checkpoint")
            return load_file(Path(folder) / "checkpoint")

    def gradients(self, names: Sequence[str], *feeds: np.ndarray) -> dict[str, np.ndarray]:
        """What one SGD step with learning rate 1 subtracts."""
        before = self.parameters()
        self.step(*feeds, learning_rate=1.0)
        after = self.parameters()
        return {name: before[name] - after[name] for name in names}


@pytest.fixture(scope="session")
def trainer() -> type[Trainer]:
    return Trainer


@pytest.fixture(scope="session")
def differences() -> Callable[..., np.ndarray]:
    """Gradient of the mean squared error by central differences, in the model as it came."""

    def measure(
        model: onnx.ModelProto, name: str, x: np.ndarray, target: np.ndarray, width: float = 1e-2
    ) -> np.ndarray:
        value = next(
            numpy_helper.to_array(t) for t in model.graph.initializer if t.name == name
        ).copy()
        gradient = np.zeros(value.shape)
        session = _session_with_input(model, name)
        for index in np.ndindex(value.shape):
            losses = []
            for side in (width, -width):
                moved = value.copy()
                moved[index] += side
                output = session.run(None, {"x": x, name: moved})[0]
                losses.append(np.mean((output.astype(np.float64) - target) ** 2))
            gradient[index] = (losses[0] - losses[1]) / (2 * width)
        return gradient

    return measure


@pytest.fixture(scope="session")
def check_gradients(
    trainer: type[Trainer], differences: Callable[..., np.ndarray]
) -> Callable[..., None]:
    """Hold what the engine computes for a prepared model against finite differences."""

    def check(model: onnx.ModelProto, prepared: Prepared, width: float = 1e-2) -> None:
        x, target = normal(ROWS, 6, seed=11) * 2, normal(ROWS, 3, seed=12)
        found = trainer(prepared.artifacts).gradients(prepared.trainable, x, target)
        assert {"w", "b", "v"} <= set(found)
        for parameter in {"b", *prepared.trainable} - {"w", "v"}:
            expected = differences(model, parameter, x, target, width)
            scale = max(float(np.abs(expected).max()), 1e-3)
            np.testing.assert_allclose(found[parameter], expected, rtol=0, atol=0.03 * scale)

    return check


def _session_with_input(model: onnx.ModelProto, name: str) -> onnxruntime.InferenceSession:
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    kept = [t for t in copy.graph.initializer if t.name != name]
    shape = next(t.dims for t in copy.graph.initializer if t.name == name)
    copy.graph.input.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
    del copy.graph.initializer[:]
    copy.graph.initializer.extend(kept)
    return onnxruntime.InferenceSession(
        copy.SerializeToString(), providers=["CPUExecutionProvider"]
    )
