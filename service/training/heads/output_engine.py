"""An engine whose model is measured and exported with another output."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from service.training.engine import NOTHING, Array, Engine, Series
from service.training.tasks.cross_entropy import cross_entropy


class OutputEngine:
    """Another engine's parameters, measured and exported with another output.

    output: computes the model's output from inputs and target, (batch, classes). attach: adds
    its nodes to the exported file.
    """

    def __init__(
        self,
        engine: Engine,
        output: Callable[[Sequence[Array], Array], Array],
        attach: Callable[[Path, str], None],
    ) -> None:
        self._engine = engine
        self._output = output
        self._attach = attach

    @property
    def name(self) -> str:
        return self._engine.name

    @property
    def output(self) -> str:
        return self._engine.output

    @property
    def quantizes(self) -> bool:
        return self._engine.quantizes

    def train_batch(
        self,
        inputs: Sequence[Array],
        target: Array,
        weights: Array | None = None,
        teacher: Array | None = None,
    ) -> float:
        return self._engine.train_batch(inputs, target, weights, teacher)

    def step(self, learning_rate: float) -> None:
        self._engine.step(learning_rate)

    def series(self, rows: int) -> Series | None:
        return self._engine.series(rows)

    def evaluate(self, inputs: Sequence[Array], target: Array) -> tuple[float, Array]:
        output = self._output(inputs, target)
        return float(cross_entropy(output, target).mean()), output

    def seed(self, seed: int) -> None:
        self._engine.seed(seed)

    def save(self, path: Path) -> None:
        self._engine.save(path)

    def load_parameters(self, path: Path) -> None:
        self._engine.load_parameters(path)

    def end_training(self) -> None:
        self._engine.end_training()

    def export(self, path: Path, metadata: Mapping[str, str] = NOTHING) -> None:
        self._engine.export(path, metadata)
        self._attach(path, self.output)
