"""Artifacts for On-Device Training, and what its API makes of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnxruntime
import pytest
from preparing import accept, graphs, order, refuse  # noqa: F401 - fixtures of this folder
from training_api import require_training_api

from service.training.engines.ort_training import runtime
from service.training.protocol.messages.shared import Artifacts


@pytest.fixture
def _on_device_training() -> None:
    require_training_api()


@pytest.fixture
def engine_name(_on_device_training: None) -> str:
    """What models are prepared for here."""
    return "ort_training"


class Trainer:
    """The bare engine on prepared artifacts, one thread."""

    def __init__(self, artifacts: Artifacts) -> None:
        api = runtime.training_api()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self.state = api.CheckpointState.load_checkpoint(artifacts.checkpoint)
        self.module = api.Module(
            artifacts.training_model,
            self.state,
            artifacts.eval_model,
            session_options=options,
        )
        self.optimizer = api.Optimizer(artifacts.optimizer_model, self.module)

    def step(self, *feeds: np.ndarray, learning_rate: float) -> float:
        self.module.train()
        outputs = self.module(*feeds)
        self.optimizer.set_learning_rate(learning_rate)
        self.optimizer.step()
        self.module.lazy_reset_grad()
        return float(outputs[0] if isinstance(outputs, tuple) else outputs)

    def evaluate(self, *feeds: np.ndarray) -> tuple[float, np.ndarray]:
        self.module.eval()
        loss, output = self.module(*feeds)
        return float(loss), output

    def parameter(self, name: str) -> np.ndarray:
        return np.array(self.state.parameters[name].data)

    def gradients(self, names: Sequence[str], *feeds: np.ndarray) -> dict[str, np.ndarray]:
        """What one SGD step with learning rate 1 subtracts."""
        before = {name: self.parameter(name) for name in names}
        self.step(*feeds, learning_rate=1.0)
        return {name: before[name] - self.parameter(name) for name in names}


@pytest.fixture(scope="session")
def trainer() -> type[Trainer]:
    return Trainer
