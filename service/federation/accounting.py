"""Privacy accounting of rounds with Gaussian noise: what is spent of a budget, and what fits.

A round adds noise of standard deviation noise_multiplier · clip_norm to a device's whole update,
whose norm is at most clip_norm. Its Rényi divergence of order a is a·rho with rho = 1 / (2 z²),
where z is the noise_multiplier (Mironov (2017), Rényi Differential Privacy, corollary 3), so rounds
add up in one number: the sum of their rho. This holds for updates with and without one device;
nothing is gained from choosing devices at random, which a device could not check.

Orders and conversion are those of the package dp-accounting 0.6, and so are the results.
"""

from __future__ import annotations

from math import expm1, inf, log, log1p

from msgspec.structs import replace

from service.errors import PrivacyBudgetSpent
from service.federation.consent import Consent
from storage.records.federation import PrivacySpent
from storage.records.models import Model

ORDERS = (
    *(1 + tenth / 10 for tenth in range(1, 100)),
    *range(11, 64),
    *(128, 256, 512, 1024),
)
"""Orders of the divergence; the one with the tightest bound is used."""


LEAST_NOISE = 1e-3
"""A smaller noise multiplier counts as none: its square may be too small for a float."""


def rho_of(noise_multiplier: float) -> float:
    """The rho that one round spends; infinite without noise."""
    return 1 / (2 * noise_multiplier**2) if noise_multiplier >= LEAST_NOISE else inf


def epsilon_of(rho: float, *, delta: float) -> float:
    """The ε of (ε, δ)-differential privacy after rounds that have spent rho.

    Canonne, Kamath, Steinke (2020), The Discrete Gaussian for Differential Privacy, proposition 12.
    """
    if rho == inf:
        return inf
    return max(0.0, min(_bound(order, order * rho, delta) for order in ORDERS))


def _bound(order: float, divergence: float, delta: float) -> float:
    if delta**2 + expm1(-divergence) > 0:  # by the Kullback-Leibler divergence
        return 0.0
    return divergence + log1p(-1 / order) - log(delta * order) / (order - 1)


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
