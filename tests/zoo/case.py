"""What a maker leaves for the runner: one model, how it is to be trained, and what comes out."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

STEPS = 5


@dataclass(slots=True)
class Case:
    """One export. Its arrays lie in NAME.npz: train.INPUT and target with an axis of steps before
    the batch, held.INPUT, and the outputs on the held rows before and after.

    model: file name; several cases may share one. output: the tensor that trains, if not the only
    output. trainable: names of initializers; None for the engine's own choice, every weight.
    noise: how far float32 is from float64 there. failure: why there is no model.
    """

    name: str
    model: str
    loss: str
    learning_rate: float = 0.0
    inputs: list[str] = field(default_factory=list)
    output: str | None = None
    trainable: list[str] | None = None
    noise: float = 0.0
    failure: str = ""


def write(folder: Path, name: str, cases: Sequence[Case]) -> None:
    """Those of one architecture."""
    text = json.dumps([asdict(case) for case in cases], indent=1)
    (folder / f"{name}.json").write_text(text + "\n")


def read(folder: Path) -> Iterator[Case]:
    """All that have a model."""
    for path in sorted(folder.glob("*.json")):
        for values in json.loads(path.read_text("utf-8")):
            case = Case(**values)
            if not case.failure:
                yield case
