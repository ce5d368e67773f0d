"""Bodies of federated training: consent, rounds, measurements."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from api.schemas.base import Body, Name, Request, shows
from api.schemas.jobs import BlockerBody, JobErrorBody, MetricsBody, ProgressBody, State
from service.federation.accounting import LEAST_NOISE
from service.federation.consent import Consent

NoiseMultiplier = (
    Annotated[float, Field(ge=0, le=0, allow_inf_nan=False)]
    | Annotated[float, Field(ge=LEAST_NOISE, le=1e6, allow_inf_nan=False)]
)
"""None, or enough for a finite privacy loss."""
ClipNorm = Annotated[float, Field(ge=1e-6, le=1e9, allow_inf_nan=False)]
Delta = Annotated[float, Field(ge=1e-100, lt=1, allow_inf_nan=False)]
"""Its square must not vanish."""


class Personalization(Request):
    """How parameters are trained on arrival, on the device's own samples."""

    epochs: int | None = Field(None, ge=1, le=1000)
    max_steps: int | None = Field(None, ge=1, le=1_000_000_000)
    learning_rate: float | None = Field(None, gt=0, le=100, allow_inf_nan=False)
    batch_size: int | None = Field(None, ge=1, le=65_536)


class FederationSettings(Request):
    """Whether a model takes part in federated training, with whom, and on which terms.

    superlink: the federation, by its SuperLink's address or any other name; needed to allow it.
    epsilon: the privacy budget of the model for good; with one, every update has noise; null: none.
    delta: of the budget. min_samples: the fewest samples that an update comes from. clip_norm,
    noise_multiplier: the largest norm and the least noise, whatever a round asks for. personalize:
    how parameters are trained on arrival. null takes a field back to its default.
    """

    allowed: bool | None = None
    superlink: Name | None = None
    epsilon: float | None = Field(None, gt=0, le=1_000_000, allow_inf_nan=False)
    delta: Delta | None = None
    min_samples: int | None = Field(None, ge=1, lt=2**53)
    max_rounds_per_day: int | None = Field(None, ge=0, lt=2**53)
    clip_norm: ClipNorm | None = None
    noise_multiplier: NoiseMultiplier | None = None
    personalize: Personalization | None = None


@shows(Consent)
class ConsentBody(Body):
    """What holds of FederationSettings."""


class SpentBody(Body):
    """What updates have spent. epsilon: for the delta of the consent, null if it has no bound.

    rounds_without_noise: with one of them it has none.
    """

    epsilon: float | None
    rounds: int
    rounds_without_noise: int


class FederationBody(ConsentBody):
    """Consent, what was spent, and how many rounds were asked for today (UTC)."""

    spent: SpentBody
    rounds_today: int


class RoundRequest(Request):
    """A round to be trained, the part `spec` of the form; the part `parameters` is safetensors.

    round: the server's number. epochs, max_steps: one epoch by default; the first that is reached
    ends it. proximal_mu: FedProx, Li et al. (2020). superlink: who asks. deadline_seconds: from now
    on; on_deadline: whether the update so far is wanted then, as by default. clip_norm: of the
    whole update. noise_multiplier: the noise's standard deviation, as a multiple of clip_norm.
    share: of the numbers, which top_k keeps; 0.01 by default.
    tokenizer_sha256: of the tokenizer of a model of texts, which all devices and the server share.
    """

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"round": 3, "epochs": 1, "learning_rate": 0.01}]}
    )

    round: int = Field(ge=0, lt=2**53)
    superlink: Name | None = None
    epochs: int | None = Field(None, ge=1, le=1_000_000)
    max_steps: int | None = Field(None, ge=1, le=1_000_000_000)
    learning_rate: float | None = Field(None, gt=0, le=100, allow_inf_nan=False)
    batch_size: int | None = Field(None, ge=1, le=65_536)
    seed: int | None = Field(None, ge=0, lt=2**31)
    proximal_mu: float | None = Field(None, ge=0, le=10, allow_inf_nan=False)
    deadline_seconds: float | None = Field(None, gt=0, le=31_536_000, allow_inf_nan=False)
    on_deadline: Literal["update", "none"] | None = None
    clip_norm: ClipNorm | None = None
    noise_multiplier: NoiseMultiplier | None = None
    compression: Literal["none", "int8", "top_k"] | None = None
    share: float | None = Field(None, gt=0, le=1, allow_inf_nan=False)
    tokenizer_sha256: str | None = Field(None, pattern="^[0-9a-f]{64}$")


class TermsBody(Body):
    """How an update is made ready to leave, with the device's own terms where they are stricter."""

    clip_norm: float | None
    noise_multiplier: float
    compression: Literal["none", "int8", "top_k"]
    share: float
    min_samples: int
    on_deadline: Literal["update", "none"]


class RoundBody(Body):
    """A round, whose id is that of its job. samples: different ones that its update comes from.

    bytes, raw_bytes: of the update, and of the parameters as float32. epsilon: spent by the model
    with it, null if it has no bound. has_update: whether there is one to fetch. metrics: single
    numbers; those of each class stay on the device.
    """

    id: int
    model: str
    federation: str
    round: int
    state: State
    blocked_by: list[BlockerBody]
    deadline: datetime | None
    hyperparameters: dict[str, Any]
    terms: TermsBody
    progress: ProgressBody
    metrics: MetricsBody
    samples: int | None
    bytes: int | None
    raw_bytes: int | None
    epsilon: float | None
    has_update: bool
    error: JobErrorBody | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


class MeasuredBody(Body):
    """What parameters are worth on the local validation samples, in single numbers; empty without
    any: docs/training.md.
    """

    metrics: dict[str, Any]
