"""Two ways to make a step: the engine's own, and one for large models that its graphs allow."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from service.training.engine import Array
from service.training.ort.runtime import pybind, training_api
from service.training.ort.sessions import check_memory

api = training_api()


class Steps(Protocol):
    """What OrtEngine asks of them."""

    def train_batch(self, arrays: Sequence[Array]) -> float:
        """Forward and backward, from the inputs and the target; gradients add up until `step`."""

    def step(self, learning_rate: float) -> None:
        """One move of the optimizer; the gradients are then cleared."""

    def settle(self) -> None:
        """Return when the parameters are those after the last step."""

    def save(self, path: Path) -> None:
        """Write parameters and optimizer state to `path`."""


class ModuleSteps:
    """The engine's own: `onnxruntime.training.api`."""

    def __init__(self, module: Any, optimizer: Any, state: Any, *, optimizer_model: Path) -> None:
        self._module = module
        self._optimizer = optimizer
        self._state = state
        self._optimizer_model = optimizer_model
        self._batches = 0
        # The module's own __call__ iterates over the outputs, which takes 40 µs (measured): as long
        # as a step of a small model.
        self._model = module._model

    def train_batch(self, arrays: Sequence[Array]) -> float:
        self._batches += 1
        outputs = pybind.OrtValueVector()
        try:
            self._model.train_step([*arrays], outputs)
        except RuntimeError as error:
            check_memory(error)
            raise
        return float(outputs[0].numpy())

    def step(self, learning_rate: float) -> None:
        # Gradients are added up, not averaged. AdamW does not see the factor, but for its epsilon;
        # for plain SGD the mean of the gradients is the sum at a smaller rate.
        if self._batches > 1 and self._is_sgd:
            learning_rate /= self._batches
        # Before each step: a loaded optimizer is at 0.001, and the runtime's LinearLRScheduler
        # has warm-up and total swapped.
        self._optimizer.set_learning_rate(learning_rate)
        try:
            self._optimizer.step()
        except RuntimeError as error:
            check_memory(error)
            raise
        self._module.lazy_reset_grad()
        self._batches = 0

    def settle(self) -> None:
        """A step is over when it returns."""

    def save(self, path: Path) -> None:
        save_checkpoint(self._state, path)

    @cached_property
    def _is_sgd(self) -> bool:
        import onnx

        model = onnx.load(self._optimizer_model, load_external_data=False)
        return any(node.op_type.startswith("SGD") for node in model.graph.node)


def save_checkpoint(state: Any, path: Path) -> None:
    """As the engine writes it. Raises MemoryError."""
    try:
        # Without the optimizer's state, which is the default, no job could be resumed.
        api.CheckpointState.save_checkpoint(state, path, include_optimizer_state=True)
    except RuntimeError as error:
        check_memory(error)
        raise
