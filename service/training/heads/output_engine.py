"""An engine whose model is measured and exported with another output."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from msgspec import Struct

from service.training.engine import NOTHING, Array, Engine
from service.training.tasks.cross_entropy import cross_entropy


def with_output(
    engine: Engine,
    output: Callable[[Sequence[Array], Array], Array],
    attach: Callable[[Path, str], None],
) -> Engine:
    """The engine, measured and exported with another output.

    output: computes it from inputs and target, (batch, classes). attach: adds its nodes to the
    exported file.
    """
    return cast("Engine", _OutputEngine(engine, output, attach))


class _OutputEngine(Struct):
    """Whatever it does not define itself is the engine's own."""

    _engine: Engine
    _output: Callable[[Sequence[Array], Array], Array]
    _attach: Callable[[Path, str], None]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def evaluate(self, inputs: Sequence[Array], target: Array) -> tuple[float, Array]:
        output = self._output(inputs, target)
        return float(cross_entropy(output, target).mean()), output

    def export(self, path: Path, metadata: Mapping[str, str] = NOTHING) -> None:
        self._engine.export(path, metadata)
        self._attach(path, self._engine.output)
