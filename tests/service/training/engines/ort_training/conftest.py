"""Artifacts for On-Device Training, and what its API makes of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hand_made import Graphs
from training_api import require_training_api

from service.training.engines.ort_training import runtime
from service.training.preparation.prepare import prepare
from service.training.protocol.messages.preparation import Prepare, Prepared, Refused
from service.training.protocol.messages.shared import Artifacts

Answer = Prepared | Refused


@pytest.fixture
def _on_device_training() -> None:
    require_training_api()


@pytest.fixture(scope="session")
def graphs() -> Graphs:
    return Graphs()


@pytest.fixture
def order(tmp_path: Path, _on_device_training: None) -> Callable[..., Answer]:
    """Carry out `Prepare` on a model, on bytes or on a file."""

    def carry_out(model: onnx.ModelProto | bytes | Path, **choices: Any) -> Answer:
        source = tmp_path / "upload"
        if isinstance(model, Path):
            source = model
        else:
            data = model if isinstance(model, bytes) else model.SerializeToString()
            source.write_bytes(data)
        choices.setdefault("loss", "mse")
        choices.setdefault("form", "forward")
        choices.setdefault("engine", "ort_training")
        return prepare(Prepare(source=str(source), work_dir=str(tmp_path / "work"), **choices))

    return carry_out


@pytest.fixture
def accept(order: Callable[..., Answer]) -> Callable[..., Prepared]:
    """Prepare a model that must be taken."""

    def carry_out(model: onnx.ModelProto | bytes | Path, **choices: Any) -> Prepared:
        answer = order(model, **choices)
        assert isinstance(answer, Prepared), answer
        return answer

    return carry_out


@pytest.fixture
def refuse(order: Callable[..., Answer]) -> Callable[..., dict[str, str]]:
    """Prepare a model that must be refused; pointer → detail of all problems."""

    def carry_out(model: onnx.ModelProto | bytes | Path, **choices: Any) -> dict[str, str]:
        answer = order(model, **choices)
        assert isinstance(answer, Refused), answer
        assert answer.problems
        assert "Traceback" not in answer.detail
        return {problem.pointer: problem.detail for problem in answer.problems}

    return carry_out


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
