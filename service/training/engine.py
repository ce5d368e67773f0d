"""The protocol of engines: what the training loop needs of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Protocol, TypeAlias

import numpy as np

from storage.arrays import NDArray

Array: TypeAlias = "NDArray[np.generic]"
NOTHING: Mapping[str, str] = MappingProxyType({})


class Series(Protocol):
    """Several steps in one call, which is faster for small ones.

    most: the number of steps that a call may take.
    """

    most: int

    def train(
        self, inputs: Sequence[Array], target: Array, rates: Sequence[float]
    ) -> Sequence[float]:
        """Steps on consecutive batches of the rows, at these learning rates; their mean losses."""


class Engine(Protocol):
    """One model in training. Inputs are in the signature's order, batch axis first.

    Callers never pass an empty batch, a label out of range or a value that is not finite:
    engines may crash on them.
    """

    @property
    def name(self) -> str:
        """Engine and version, as recorded with a job: `onnxruntime-training 1.19.2`."""

    @property
    def output(self) -> str:
        """The name of the tensor that is measured and that the exported model outputs."""

    @property
    def quantizes(self) -> bool:
        """Whether it quantizes results, so that a difference in the last bit may become a step."""

    def train_batch(
        self,
        inputs: Sequence[Array],
        target: Array,
        weights: Array | None = None,
        teacher: Array | None = None,
    ) -> float:
        """Forward and backward; gradients accumulate until `step`. Returns the mean loss.

        weights: (batch,) float32, factors on the samples' losses. teacher: the targets of
        distillation from service/training/teacher.py, of the output's shape.
        """

    def step(self, learning_rate: float) -> None:
        """One optimizer step with the mean of the gradients, which are then cleared."""

    def series(self, rows: int) -> Series | None:
        """Steps on batches of this many rows in one call, to the same bits; None if not faster."""

    def evaluate(self, inputs: Sequence[Array], target: Array) -> tuple[float, Array]:
        """Mean loss and the output tensor, in inference mode."""

    def seed(self, seed: int) -> None:
        """Make the random operators of the next step repeatable."""

    def save(self, path: Path) -> None:
        """Write parameters and optimizer state to `path`. Not atomic."""

    def load_parameters(self, path: Path) -> None:
        """Load the parameters of a checkpoint; the optimizer state stays."""

    def end_training(self) -> None:
        """Free the memory that only steps need; none follows."""

    def export(self, path: Path, metadata: Mapping[str, str] = NOTHING) -> None:
        """Write the whole inference model with the current parameters.

        metadata: added to its metadata_props.
        """
