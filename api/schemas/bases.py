"""Bodies of a model's base, and of the upgrade that is not decided."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from api.schemas.base import Body, shows
from storage.records.models import Base


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
