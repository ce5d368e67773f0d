"""Forms of a computation between which a rule by shape only guesses.

Each place that decides asks `Choices`, which answers with the guess unless a measurement found
another form faster (service/training/preparation/measured_choices.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from service.training.graph.tensor import product

BLOCKS, COLUMNS, PLAIN = "blocks", "columns", "plain"
"""Forms of a convolution: in the runtime's own layout, as in plain_weights.py, as ONNX has it."""
PADS, ZEROS = "pads", "zeros"
"""What rows have beside them that a convolution in blocks reads."""


class Convolution(Struct, frozen=True):
    """One of a model, that fits blocks. of_input: it reads what the model is fed, so that it has no
    gradient by it. places: sizes of what it reads, without batch and channels.
    """

    ins: int
    outs: int
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    pads: tuple[int, ...]
    dilations: tuple[int, ...]
    groups: int
    places: tuple[int, ...]
    of_input: bool

    @property
    def work(self) -> int:
        """Multiplications for a sample."""
        per_place = self.ins // self.groups * self.outs * product(self.kernel)
        return per_place * product(self.places) // product(self.strides)


class Choices:
    """made: the form that is taken instead of the guess, by question. asked: guess and other forms,
    by question. convolutions: how many of each the graph has.
    """

    def __init__(self, choices: Mapping[str, str] | None = None) -> None:
        self.made = dict(choices or {})
        self.asked: dict[str, tuple[str, tuple[str, ...]]] = {}
        self.convolutions: Counter[Convolution] = Counter()

    def take(self, kind: str, facts: Mapping[str, Any], guess: str, *others: str) -> str:
        """The form to take. facts: what the time of each form depends on."""
        question = " ".join([kind, *(f"{name}={_text(value)}" for name, value in facts.items())])
        self.asked[question] = (guess, others)
        return self.made.get(question, guess)


def _text(value: Any) -> str:
    return "x".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
