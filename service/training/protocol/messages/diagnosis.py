"""Messages of diagnosis: what a file holds, before it is registered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from service.training.protocol.messages.preparation import Prepare, Prepared
from service.training.protocol.messages.shared import ResourceLimits
from storage.errors import Problem

WhyNot = Literal[
    "constant", "frozen", "integer", "mask", "no_gradient", "precision", "quantized", "statistic"
]
"""Why an initializer does not train."""


@dataclass(frozen=True, slots=True)
class Diagnose:
    """Tell what a file holds, and make the check that a registration would make.

    prepare: that check. Without a loss, an empty string, the one that is suggested is taken.
    """

    prepare: Prepare
    kind: Literal["diagnose"] = "diagnose"

    @property
    def source(self) -> str:
        """The file."""
        return self.prepare.source

    @property
    def work_dir(self) -> str:
        """Where the check writes."""
        return self.prepare.work_dir

    @property
    def limits(self) -> ResourceLimits:
        """Those of the check."""
        return self.prepare.limits


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """An input or output. shape: of one sample, None where it is not fixed or not known."""

    name: str
    dtype: str
    shape: tuple[int | None, ...] | None


@dataclass(frozen=True, slots=True)
class Initializer:
    """What may be a parameter. why_not, detail: None where it trains.

    below: whether the cut leaves it in the frozen part.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    trains: bool
    below: bool = False
    why_not: WhyNot | None = None
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class HeadInfo:
    """The last layer of a classifier, which has a row of weights for each class."""

    weight: str
    bias: str | None
    features: str
    classes: int


@dataclass(frozen=True, slots=True)
class RefusedNode:
    """A node that keeps the model from being trained."""

    node: str
    operator: str
    detail: str


@dataclass(frozen=True, slots=True)
class Suggested:
    """What the file itself says of how it is to be registered. because: a sentence on the loss.

    loss_output: the tensor that is the loss, where that is `output`. classes: names that the file
    carries. preprocess: as in a spec.
    """

    loss: str
    because: str
    output: str | None = None
    loss_output: str | None = None
    classes: tuple[str, ...] | None = None
    preprocess: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Diagnosed:
    """What the file holds. prepared: what the check made, None if it found problems.

    loss: the one of the check. opset: None for artifacts. initializers: in graph order.
    """

    loss: str
    opset: int | None
    producer: str
    operators: int
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    initializers: tuple[Initializer, ...]
    problems: tuple[Problem, ...]
    prepared: Prepared | None = None
    suggested: Suggested | None = None
    head: HeadInfo | None = None
    refused: tuple[RefusedNode, ...] = ()
    kind: Literal["diagnosed"] = "diagnosed"
