"""JSON bodies of the samples' routes."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import ConfigDict, Field

from api.bodies.columns import IN_PATCH
from api.schemas.base import Body, FaultBody, Request, shows, with_fields
from api.schemas.jobs import JobBody
from api.schemas.models import SampleCountsBody
from service.samples.base_set import Removed
from service.training.protocol.messages.comparison import FeatureDrift
from storage.erasure.unlearning import Deletion
from storage.records.samples import Sample

OrdinarySplit = Literal["train", "validation"]
SplitName = Literal[OrdinarySplit, "base"]


class LabelCount(Body):
    """Samples of one split and label; label is null for unlabelled ones."""

    split: SplitName
    label: int | None
    name: str | None
    count: int


class BaseSetBody(Body):
    """The base set. samples: labelled ones, of which jobs train on all but those held out.

    labels: by class for a model with classes. changed_at: when samples were last added, null
    without one.
    """

    samples: int
    held_out: int
    labels: list[LabelCount]
    changed_at: datetime | None


@shows(Removed)
class BaseSetRemoved(Body):
    """What became of the samples. given_back: those that were the model's before, which are
    ordinary samples again. deleted: those that were sent as a base set."""


class SamplesAccepted(Body):
    """What became of an upload. ids: first and last accepted, null if none was.

    rejected, errors: with ?on_error=skip, the bad samples that were left out; of an archive, those
    that were damaged when it was made. evicted: samples that the model's quota took away for these.
    conflicts: accepted samples with the inputs of another, and another label. warnings: what may
    make the model worse, for people.
    """

    accepted: int
    duplicates: int
    ids: tuple[int, int] | None
    rejected: int = 0
    errors: list[FaultBody] = Field(default_factory=list)
    evicted: int = 0
    conflicts: int = 0
    warnings: list[str] = Field(default_factory=list)


class BaseSetChanged(SamplesAccepted):
    """What became of an upload to the base set, or of samples that it took, and what it is now.

    duplicates: samples that the model had already, which are the base set's now.
    """

    base_set: BaseSetBody


@shows(
    Sample,
    without=("model_id", "owner"),
    label=Any,
    quarantine=str | None,
    uncertainty=(float | None, None),
    doubt=(float | None, None),
    predicted=(Any, None),
)
class SampleBody(Body):
    """A stored sample, without its content.

    pinned: no quota takes it away. weight: factor on its loss in training. quarantine: why training
    leaves it out. uncertainty: entropy of what the current version makes of it, in nats, in lists
    ordered by it. doubt, predicted: 1 less the probability that the current version gives the
    label, and the label that it would give, in lists of suspects.
    """


@with_fields(IN_PATCH)
class SamplePatch(Request):
    """label: null takes it away. spans: a label that is spans of a text. A field that is absent
    stays.
    """

    model_config = ConfigDict(json_schema_extra={"examples": [{"label": 3}]})

    label: Any = None
    spans: list[Any] | None = None
    split: OrdinarySplit | None = None
    pinned: bool | None = None


class SampleStatsBody(SampleCountsBody):
    """Counts by split, and by class for a model with classes. size_bytes: of all together.

    quarantined: those set aside, which count above as well.
    """

    labels: list[LabelCount]
    size_bytes: int
    quarantined: int


class DuplicatesBody(Body):
    """Samples with the same content."""

    sha256: str
    ids: list[int]


@shows(FeatureDrift, without=("figure",), feature=int, name=str | None)
class FeatureDriftBody(Body):
    """A feature of an input. name: of its CSV column, or for an input of many numbers the figure of
    each sample that was compared. psi: population stability index; it has drifted above limit."""


class DriftBody(Body):
    """Recent samples beside those that a version was trained on. drifted: null with too few.

    features: up to 20, those that drifted most first; compared: how many there are in all.
    """

    version: int
    drifted: bool | None
    training_samples: int
    recent_samples: int
    compared: int
    features: list[FeatureDriftBody]


@shows(Deletion, job=JobBody | None)
class DeletionBody(Body):
    """What a deletion did. job: trains anew without them; when it succeeds the versions that saw
    them go. versions: those that went at once, because nothing is left to train on."""


class SeenSample(Body):
    """A sample that a version has trained on. deleted: it is gone since."""

    id: int
    deleted: bool


class SeenBody(Body):
    """What a version has trained on, what it started from included. total: null if unknown."""

    total: int | None
    items: list[SeenSample]
    next: str | None
