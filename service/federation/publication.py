"""Stores a round's update: from then on it may leave, and its privacy budget is spent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from service.federation.consent import require_consent
from service.federation.spending import epsilon_spent, require_budget, with_round
from service.training.protocol.messages.training import Updated
from storage.records.federation import FileRole
from storage.records.jobs import Job
from storage.records.models import FileRecord
from storage.store import Store


def publish_update(job: Job, store: Store, update: Updated, metrics: dict[str, Any]) -> None:
    """Spend the budget, store the update and mark the job succeeded, all in one step.

    Raises NotConsented and PrivacyBudgetSpent if a person has changed the terms meanwhile,
    StorageFull, StorageBroken.
    """
    now = store.rounds.get(job.id)
    model = store.models.get_by_id(job.model_id)
    consent = require_consent(model, now.federation)
    noise = now.terms["noise_multiplier"]
    before = store.rounds.spent(model)
    require_budget(model, consent, before, noise)
    spent = with_round(before, noise)
    with store.files.adopting() as adopt:
        files: dict[FileRole, FileRecord] = {"update": adopt(Path(update.path))}
        if update.residual is not None:
            files["residual"] = adopt(Path(update.residual))
        store.rounds.finish(
            job.id,
            model,
            files,
            {
                "samples": update.samples,
                "steps": update.step,
                "bytes": files["update"].size_bytes,
                "raw_bytes": update.raw_bytes,
                "norm": update.norm,
                "sent_norm": update.sent_norm,
                "epsilon": None if spent.unnoised else epsilon_spent(spent, delta=consent.delta),
            },
            spent=spent,
            metrics=metrics,
        )
