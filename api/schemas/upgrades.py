"""Bodies of a model's base and its upgrades; imported for these alone."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field

from api.schemas.base import Body, Request, Text, shows
from api.schemas.jobs import JobHyperparameters
from api.schemas.models import ClassName, InputBody, LossOutput, Trainable, listed
from service.models.upgrade.spec import Running
from storage.records.models import Base, BatchNorm, NewModel


@shows(
    Base,
    without=("model_id", "request", "job_id", "labelled", "shapes", "adopted_at"),
    adopted_at=datetime,
)
class AdoptedBaseBody(Body):
    """A base of which a version was `latest`. sha256: of the file as it came.

    adopted_at: when it first was. versions: those that descend from it and are kept.
    """


class UpgradeBody(Body):
    """An upgrade that is not decided. state: of its job, or `waiting` for more samples.

    reason: what its job waits for, or why the old base still serves. retry_at: the number of
    labelled samples with which it is tried again. versions: what its jobs made so far.
    """

    base: int
    sha256: str
    arrived_at: datetime
    state: Literal["queued", "running", "paused", "waiting"]
    reason: str
    job_id: int
    versions: list[int]
    retry_at: int | None


class ModelBaseBody(AdoptedBaseBody):
    """The base of the version that `latest` names. former: others of which versions are kept.

    source: what the model follows, from which new bases come by themselves; null for none.
    """

    former: list[AdoptedBaseBody]
    upgrade: UpgradeBody | None
    source: str | None


class UpgradeSpecBody(Request):
    """What an upgrade says of its file; nothing is required, and the rest is the model's own.

    trainable, output, batch_norm: as at registration. loss: the tensor that is the loss, for a
    model that computes its own. classes: names of the file's classes, in its order, if they are not
    the model's: rows of the head go by name. hyperparameters: of the upgrade's jobs. preprocess:
    what differs from the model's, such as the size. running: whether a running or paused job of the
    old base ends first, or is cancelled.
    """

    model_config = ConfigDict(json_schema_extra={"examples": [{"preprocess": {"size": [96, 96]}}]})

    output: Text | None = None
    loss: LossOutput | None = None
    trainable: Annotated[list[Trainable] | None, BeforeValidator(listed)] = Field(
        None, min_length=1, max_length=10_000
    )
    classes: list[ClassName] | None = Field(None, min_length=1, max_length=1_000_000)
    hyperparameters: JobHyperparameters = JobHyperparameters()
    preprocess: Annotated[list[dict[str, Any]], BeforeValidator(listed)] = Field(
        [], max_length=1000
    )
    batch_norm: BatchNorm = "inference"
    running: Running = "wait"


@shows(
    NewModel,
    without=(
        *("name", "loss", "optimizer", "signature", "hyperparameters", "files", "gate"),
        *("retention", "keeps_duplicates", "features", "loss_output", "sha256", "shapes"),
    ),
    inputs=list[InputBody],
    consent_ends=bool,
)
class UpgradeCheckBody(Body):
    """A file that fits the model, as it would be prepared. notes: what was changed in the graph.

    consent_ends: whether consent to federated training would end with the upgrade, because other
    parameters train.
    """
