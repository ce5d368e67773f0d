"""A model's privacy budget: how much was spent, whether a round fits, and spending it.

What was spent is kept in the database, and in a file that a restore does not touch; the larger
counts.
"""

from __future__ import annotations

from math import isfinite

from msgspec.structs import replace

from service.errors import PrivacyBudgetSpent
from service.federation.accounting import epsilon_of, rho_of
from service.federation.consent import Consent
from storage.disk.privacy_ledger import PrivacyLedger
from storage.records.federation import PrivacySpent
from storage.records.models import Model
from storage.store import Store


def spent_of(model: Model, store: Store) -> PrivacySpent:
    """Raises StorageBroken if the file of what was spent cannot be read."""
    return store.rounds.spent(model.id).at_least(PrivacyLedger(store.data_dir).read(model))


def with_round(spent: PrivacySpent, noise_multiplier: float) -> PrivacySpent:
    """The budget spent after one more round."""
    if not noise_multiplier:
        return replace(spent, unnoised=spent.unnoised + 1)
    return replace(spent, rho=spent.rho + rho_of(noise_multiplier), rounds=spent.rounds + 1)


def require_budget(model: Model, consent: Consent, spent: PrivacySpent, noise: float) -> None:
    """noise: the round's noise multiplier. Raises PrivacyBudgetSpent if the round does not fit."""
    if consent.epsilon is None:
        return
    after = epsilon_of(spent.rho + rho_of(noise), delta=consent.delta)
    if after <= consent.epsilon:
        return
    now = epsilon_of(spent.rho, delta=consent.delta)
    would = f"would make it {after:.4g}" if isfinite(after) else "without noise has no bound"
    raise PrivacyBudgetSpent(
        f"{model.name!r} has spent epsilon {now:.4g} of its budget of {consent.epsilon:g} (delta "
        f"{consent.delta:g}) in {spent.rounds} rounds, and this round {would}; ask for more noise, "
        f"or a person raises it by PATCH /v1/models/{model.name} "
        '{"federation": {"epsilon": …}}'
    )


def note_spent(model: Model, store: Store, spent: PrivacySpent) -> None:
    """Write the file before the database records the round, so that it never has too little."""
    PrivacyLedger(store.data_dir).write(model, spent)
