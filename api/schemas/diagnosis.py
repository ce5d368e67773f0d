"""Bodies of a diagnosis: what a file holds before it is registered."""

from __future__ import annotations

from api.schemas.base import Body, FaultBody, Text, shows
from api.schemas.models import LossOutput, ModelSpecBody, TargetBody
from service.training.protocol.messages.diagnosis import (
    HeadInfo,
    Initializer,
    RefusedNode,
    Suggested,
    TensorInfo,
    WhyNot,
)
from service.training.protocol.messages.preparation import Cut
from service.training.tasks import LossName


class DiagnosisSpecBody(ModelSpecBody):
    """The description of a model as at registration, of which nothing is required.

    name: checked if it is given. loss: without one, the suggested loss is taken.
    """

    name: str = ""
    loss: LossName | LossOutput | None = None  # type: ignore[assignment]


@shows(TensorInfo)
class TensorBody(Body):
    """An input or output. shape: of one sample; null where it is not fixed or not known."""


@shows(
    Initializer,
    shape=list[int],
    count=int,
    below=bool,
    why_not=WhyNot | None,
    detail=str | None,
)
class InitializerBody(Body):
    """What may be a parameter. why_not, detail: null where it trains.

    below: whether it lies below the cut, in the frozen part that runs once for each sample.
    """


class ParametersFound(Body):
    """Numbers of values that would train, and that would not; each parameter in graph order."""

    trainable: int
    frozen: int
    items: list[InitializerBody]


@shows(Cut)
class CutBody(Body):
    """Where the frozen part of a model ends. Bytes and milliseconds are of one sample.

    tensors: what crosses the cut. nodes, parameters: how many lie below it. pays: whether it is
    made: features are then read sooner than they are computed.
    """


@shows(HeadInfo)
class HeadBody(Body):
    """The layer that has a row of weights for each class, which classes can be added to."""


@shows(RefusedNode)
class RefusedNodeBody(Body):
    """A node that keeps the model from being trained."""


@shows(Suggested, without=("loss_output",), loss=LossName | LossOutput, output=Text | None)
class SuggestedBody(Body):
    """What the file itself says of how it is to be registered; as in a spec.

    because: why this loss. classes: names that the file carries.
    """


class DiagnosisBody(Body):
    """What a file holds, and what of it would train. Nothing is stored.

    ready: whether a registration with this spec would work; problems: what keeps it from that, as
    a registration would tell. loss, output: those that were checked. target: what a label would be.
    opset: null for artifacts. suggested: null if no output could be trained. cut: null if nothing
    is frozen below what trains. notes: what would be changed in the graph, and warnings.
    """

    ready: bool
    problems: list[FaultBody]
    refused: list[RefusedNodeBody]
    opset: int | None
    producer: str
    operators: int
    inputs: list[TensorBody]
    outputs: list[TensorBody]
    loss: str
    output: str | None
    target: TargetBody | None
    head: HeadBody | None
    suggested: SuggestedBody | None
    parameters: ParametersFound
    cut: CutBody | None
    notes: list[str]
