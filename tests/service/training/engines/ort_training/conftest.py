"""Artifacts for On-Device Training, and what its API makes of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnxruntime
import pytest
from perceptrons import perceptron, rewrite_ir
from preparing import accept, graphs, order, refuse  # noqa: F401 - fixtures of this folder
from training_api import require_training_api
from workshop import CLASSES, FEATURES, HIDDEN

from service.training.engines.ort_training import runtime
from service.training.engines.ort_training.runtime import training_artifacts
from service.training.protocol.messages.shared import Artifacts

if TYPE_CHECKING:  # plain onnxruntime has no On-Device Training
    from service.training.engines.ort_training.engine import OrtEngine


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


@pytest.fixture(scope="session")
def make_artifacts(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Artifacts]:
    """Microsoft's artifacts of a perceptron: x (batch, features) → logits (batch, classes)."""
    made: dict[str, Artifacts] = {}

    def make(
        *,
        optimizer: str = "AdamW",
        loss: str = "CrossEntropyLoss",
        dropout: bool = False,
        frozen: tuple[str, ...] = (),
        outputs: tuple[str, ...] = ("logits",),
        seed: int = 0,
        sizes: tuple[int, ...] = (FEATURES, HIDDEN, CLASSES),
    ) -> Artifacts:
        require_training_api()
        key = repr((optimizer, loss, dropout, frozen, outputs, seed, sizes))
        if key not in made:
            folder = tmp_path_factory.mktemp("artifacts")
            model = perceptron(sizes, dropout=dropout, seed=seed)
            weights = [each.name for each in model.graph.initializer if each.name[0] in "wb"]
            offline = training_artifacts()
            offline.generate_artifacts(
                model,
                requires_grad=[name for name in weights if name not in frozen],
                frozen_params=list(frozen),
                loss=offline.LossType[loss],
                optimizer=offline.OptimType[optimizer],
                artifact_directory=folder,
                additional_output_names=list(outputs),
            )
            rewrite_ir(folder / "optimizer_model.onnx")
            made[key] = Artifacts(
                training_model=str(folder / "training_model.onnx"),
                eval_model=str(folder / "eval_model.onnx"),
                optimizer_model=str(folder / "optimizer_model.onnx"),
                checkpoint=str(folder / "checkpoint"),
            )
        return made[key]

    return make


@pytest.fixture
def open_engine(make_artifacts: Callable[..., Artifacts]) -> Callable[..., OrtEngine]:
    """The engine on small artifacts of some kind."""

    def make(*, checkpoint: Path | None = None, output: str = "logits", **kind: Any) -> OrtEngine:
        artifacts = make_artifacts(**kind)
        path = checkpoint or Path(artifacts.checkpoint)
        from service.training.engines.ort_training.engine import OrtEngine

        return OrtEngine(artifacts, checkpoint=path, output=output, threads=1)

    return make
