"""JSON bodies of tokens and the audit log."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import ConfigDict, Field, JsonValue, StringConstraints

from api.schemas.base import Body, Name, Request, Time, shows
from service.access.principal import Scope
from storage.records.access import AuditEntry, Token

EXAMPLE: dict[str, JsonValue] = {
    "name": "camera",
    "scopes": ["samples:write", "predict"],
    "models": ["pets"],
    "limits": {"uploads": 2, "bytes_per_day": 1_000_000_000},
}
TokenName = Annotated[Name, StringConstraints(max_length=64, pattern=r"^\S(.*\S)?$")]
ModelName = Annotated[str, StringConstraints(min_length=1, max_length=64)]
ScopeName = Annotated[Scope, Field(strict=False)]


class LimitSettings(Request):
    """Limits of what a token may use; null for no limit. A field that is absent stays."""

    connections: int | None = Field(
        None, ge=1, le=512, description="Requests open at once; event streams count. Null is 64."
    )
    uploads: int | None = Field(None, ge=1, le=512, description="Uploads of samples at once.")
    registrations: int | None = Field(
        None, ge=1, le=512, description="Registrations of models at once."
    )
    predictions_per_second: float | None = Field(
        None, gt=0, le=1e6, allow_inf_nan=False, description="Requests for predictions a second."
    )
    bytes_per_day: int | None = Field(
        None, ge=1, lt=2**53, description="Bytes of request bodies in a day (UTC)."
    )


class TokenRequest(Request):
    """A token to be made. models: the only ones that it may touch, null for all.

    expires_at: null for never.
    """

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE]})

    name: TokenName
    scopes: list[ScopeName] = Field(min_length=1)
    models: list[ModelName] | None = Field(None, min_length=1, max_length=100)
    limits: LimitSettings = LimitSettings()
    expires_at: Time | None = None


class TokenPatch(Request):
    """The changes. Fields that are absent stay; scopes and models never change."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"limits": {"uploads": 1}}]})

    name: TokenName | None = None
    limits: LimitSettings | None = None
    expires_at: Time | None = None


@shows(
    Token,
    without=("sha256", "used_on", "used_bytes", "session_of"),
    scopes=list[Scope],
    limits=LimitSettings,
)
class TokenBody(Body):
    """A token. last_used_at: within the hour, after a crash."""


class NewTokenBody(TokenBody):
    """A token with its secret, which is shown this one time."""

    secret: str


class CodeBody(Body):
    """A code that signs in once, until it expires."""

    code: str
    expires_at: datetime


class SignInRequest(Request):
    """The code of `honed dashboard`."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"code": "hone_…"}]})

    code: Annotated[str, StringConstraints(min_length=1, max_length=256)]


@shows(AuditEntry, previous=str, hash=str)
class AuditBody(Body):
    """An entry of the audit log. who: a token or uid; `nobody` had no valid token.

    path: without its query; of `nobody` only how it begins. code: of a refusal. count: how many
    requests the entry stands for. facts: of what left in federated training: sizes, norms, epsilon.
    previous: the hash of the entry before, hash: its own (SHA-256, hexadecimal).
    """
