"""Bodies of followed sources."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import ConfigDict, Field, JsonValue

from api.schemas.base import Body, Name, Request, Text, shows
from api.schemas.jobs import BlockerBody
from storage.records.follows import FollowError, OfferedBase

LEAST_HOURS, MOST_HOURS = 0.1, 24.0 * 366
MOST_KEYS, MOST_HOSTS = 16, 16
EXAMPLE_FOLLOW: dict[str, JsonValue] = {
    "source": "oci://registry.example/team/digits:stable",
    "keys": [
        "-----BEGIN PUBLIC KEY-----\n"
        "MCowBQYDK2VwAyEA9na64ZFwVZJgXdIZk+jiGgD1kjU5BgiaoqEhfE/Nf7A=\n"
        "-----END PUBLIC KEY-----\n"
    ],
}


class FollowRequest(Request):
    """Where new bases of a model come from.

    source: `oci://registry/repository:tag`, or `https://…` of an ONNX file. keys: public keys
    (Ed25519, PEM); only what one of them has signed is taken. name: as the vendor's statements name
    the model; default: as it is named here. hosts: others that the source may redirect to.
    percent: the share of all devices that takes what is offered. report: where one report on each
    upgrade is sent, as OTLP in JSON; null, the default, for none.
    """

    model_config = ConfigDict(json_schema_extra={"example": EXAMPLE_FOLLOW})

    source: Annotated[str, Field(min_length=1, max_length=2000)]
    keys: Annotated[list[Annotated[str, Field(max_length=2000)]], Field(max_length=MOST_KEYS)]
    name: Name | None = None
    hosts: list[Text] = Field(default_factory=list, max_length=MOST_HOSTS)
    every_hours: float = Field(24.0, ge=LEAST_HOURS, le=MOST_HOURS, allow_inf_nan=False)
    percent: float = Field(100.0, ge=0, le=100, allow_inf_nan=False)
    report: Annotated[str, Field(max_length=2000)] | None = None


@shows(OfferedBase)
class OfferedBody(Body):
    """What the newest statement that held offers. percent: the share of devices that it is for."""


@shows(FollowError)
class FollowErrorBody(Body):
    """Why the last try did not go on, and when; docs/errors.md describes the codes."""


class FollowBody(Body):
    """A followed source, and what came of asking it.

    asking: it is being asked now, or its file is downloaded. blocked_by: what keeps it from being
    asked. in_share: whether this device takes part in what is offered; null without an offer.
    downloaded_bytes: of the offered files, what is here. taken: the newest version whose upgrade
    was begun, by the job job_id. report_body: what the report on it says, sent or not; null until
    it has ended. reported: the version whose report was sent last. error: null once a try has
    succeeded.
    """

    model: str
    source: str
    keys: list[str]
    name: str
    hosts: list[str]
    every_hours: float
    percent: float
    report: str | None
    created_at: datetime
    asking: bool
    blocked_by: list[BlockerBody]
    asked_at: datetime | None
    next_at: datetime | None
    offered: OfferedBody | None
    in_share: bool | None
    downloaded_bytes: int
    taken: int | None
    taken_at: datetime | None
    job_id: int | None
    report_body: dict[str, Any] | None
    reported: int | None
    error: FollowErrorBody | None
