"""Messages of diagnosis: the contents of a file before it is registered."""

from __future__ import annotations

from math import prod
from typing import Any, Literal

from msgspec import field

from service.training.protocol.messages.preparation import Prepare, Prepared
from service.training.protocol.messages.shared import ResourceLimits
from service.training.protocol.serialization import Line, Serialized
from storage.errors import Problem

WhyNot = Literal[
    "constant", "frozen", "integer", "mask", "no_gradient", "precision", "quantized", "statistic"
]
"""Why an initializer does not train."""


class Diagnose(Line, frozen=True):
    """Describe a file's contents, and run the check of a registration.

    prepare: that check. If its loss is an empty string, the suggested one is used.
    """

    prepare: Prepare
    limits: ResourceLimits = field(default_factory=ResourceLimits)

    @property
    def work_dir(self) -> str:
        """The folder that the check writes to."""
        return self.prepare.work_dir


class TensorInfo(Serialized, frozen=True):
    """An input or output. shape: of one sample, None for unknown or variable sizes."""

    name: str
    dtype: str
    shape: tuple[int | None, ...] | None


class Initializer(Serialized, frozen=True):
    """An initializer that may be a parameter. why_not, detail: None if it trains.

    below: whether the cut leaves it in the frozen part.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    trains: bool
    below: bool = False
    why_not: WhyNot | None = None
    detail: str | None = None

    @property
    def count(self) -> int:
        """Number of values."""
        return prod(self.shape)


class HeadInfo(Serialized, frozen=True):
    """The last layer of a classifier, which has a row of weights for each class."""

    weight: str
    bias: str | None
    features: str
    classes: int


class RefusedNode(Serialized, frozen=True):
    """A node that prevents training."""

    node: str
    operator: str
    detail: str


class Suggested(Serialized, frozen=True):
    """A suggestion for registering the file, from its content. because: a sentence on the loss.

    loss_output: the tensor that is the loss, if that is `output`. classes: names stored in the
    file. preprocess: as in a spec.
    """

    loss: str
    because: str
    output: str | None = None
    loss_output: str | None = None
    classes: tuple[str, ...] | None = None
    preprocess: tuple[dict[str, Any], ...] = ()


class Diagnosed(Line, frozen=True):
    """The file's contents. prepared: the result of the check, None if it found problems.

    loss: the one checked. opset: None for artifacts. initializers: in graph order.
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
