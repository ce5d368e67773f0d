"""Consent: whether a model takes part in federated training, and the device's terms."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from service.errors import InvalidInput, NotConsented
from storage.errors import StateConflict
from storage.records.models import Model


class Consent(Struct, frozen=True):
    """What a person allows. superlink: the only federation that may start rounds.

    epsilon, delta: the model's budget over its lifetime; epsilon None: no budget, and updates may
    leave without noise. min_samples: minimum number of distinct samples behind an update.
    max_rounds_per_day: None for any. clip_norm, noise_multiplier: the maximum and the minimum
    applied, whatever the federation asks for. personalize: hyperparameters for training received
    parameters on arrival, None for none.
    """

    allowed: bool = False
    superlink: str | None = None
    epsilon: float | None = None
    delta: float = 1e-5
    min_samples: int = 16
    max_rounds_per_day: int | None = None
    clip_norm: float | None = None
    noise_multiplier: float = 0.0
    personalize: dict[str, Any] | None = None


def consent_of(model: Model) -> Consent:
    """The model's consent, with defaults for what it does not set."""
    return Consent(**model.federation)


def merge_consent(own: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    """What differs from the defaults after a change; None resets a field to its default.

    Raises InvalidInput for consent without a federation, StateConflict for a second federation.
    """
    merged = {name: value for name, value in {**own, **change}.items() if value is not None}
    now, new = Consent(**own), Consent(**merged)
    if new.allowed and not new.superlink:
        detail = "name the federation that may ask, as its SuperLink's address; consent is to one"
        raise InvalidInput.at("/federation/superlink", detail, title="consent needs a federation")
    if now.allowed and new.allowed and now.superlink != new.superlink:
        raise StateConflict(
            f"the model takes part in {now.superlink}, and a model is in one federation at a time; "
            'take that consent back first, with "allowed": false'
        )
    if new.noise_multiplier and not new.clip_norm:
        detail = "noise is in proportion to clip_norm: set it too"
        raise InvalidInput.at("/federation/clip_norm", detail, title="the terms do not fit")
    return merged


def require_consent(model: Model, superlink: str | None) -> Consent:
    """superlink: the federation that asks, None if unknown. Raises NotConsented."""
    consent = consent_of(model)
    if not consent.allowed:
        raise NotConsented(
            f"nobody has allowed {model.name!r} to take part in federated training; a person does "
            f"by PATCH /v1/models/{model.name} "
            '{"federation": {"allowed": true, "superlink": "HOST:PORT"}}'
        )
    if superlink is not None and superlink != consent.superlink:
        raise NotConsented(
            f"{model.name!r} takes part in the federation of {consent.superlink}, not in that of "
            f"{superlink}; a model is in one federation at a time"
        )
    return consent
