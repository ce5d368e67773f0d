"""A model's privacy budget: how much was spent, and whether a round fits."""

from __future__ import annotations

from math import inf

from msgspec.structs import replace

from service.errors import PrivacyBudgetSpent
from service.federation.accounting import LEAST_NOISE, epsilon_of, rho_of
from service.federation.consent import Consent
from storage.records.federation import PrivacySpent
from storage.records.models import Model


def with_round(spent: PrivacySpent, noise_multiplier: float) -> PrivacySpent:
    """The budget spent after one more round."""
    rho = rho_of(noise_multiplier)
    if rho == inf:
        return replace(spent, unnoised=spent.unnoised + 1)
    return replace(spent, rho=spent.rho + rho, rounds=spent.rounds + 1)


def epsilon_spent(spent: PrivacySpent, *, delta: float) -> float:
    """The ε of all rounds together; infinite if one of them was without noise."""
    return epsilon_of(inf if spent.unnoised else spent.rho, delta=delta)


def require_budget(model: Model, consent: Consent, spent: PrivacySpent, noise: float) -> None:
    """noise: the round's noise multiplier. Raises PrivacyBudgetSpent if the round does not fit."""
    if consent.epsilon is None:
        return
    after = epsilon_spent(with_round(spent, noise), delta=consent.delta)
    if after <= consent.epsilon:
        return
    now = epsilon_spent(spent, delta=consent.delta)
    if now == inf:
        raise PrivacyBudgetSpent(
            f"{model.name!r} has made updates without noise ({spent.unnoised}), whose privacy loss "
            f"has no bound, so nothing is left of its budget of {consent.epsilon:g}; a person "
            "registers the model anew, or takes the budget back by PATCH "
            f'/v1/models/{model.name} {{"federation": {{"epsilon": null}}}}'
        )
    if after == inf:
        raise PrivacyBudgetSpent(
            f"the round has noise_multiplier {noise:g}, and the privacy loss of a round without "
            f"noise has no bound, so it exceeds the budget of {model.name!r}, epsilon "
            f"{consent.epsilon:g}; send a noise_multiplier of at least {LEAST_NOISE:g}"
        )
    raise PrivacyBudgetSpent(
        f"{model.name!r} has spent epsilon {now:.4g} of its budget of {consent.epsilon:g} (delta "
        f"{consent.delta:g}) in {spent.rounds} rounds, and this round would make it {after:.4g}; "
        f"ask for more noise, or a person raises it by PATCH /v1/models/{model.name} "
        '{"federation": {"epsilon": …}}'
    )
