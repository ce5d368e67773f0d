"""A federated job: what its child begins with and is to make, and what becomes of the update."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from service.federation.accounting import epsilon_spent, require_budget, with_round
from service.federation.consent import Consent, require_consent
from service.training.protocol.messages.training import Start, Updated, UpdateTerms
from storage.errors import NotFound
from storage.records.federation import ROUND, SENT, FileRole
from storage.records.jobs import Job
from storage.records.models import FileRecord, Model
from storage.store import Store

BEGIN_WITH_SENT = (ROUND, SENT)
"""`start` of jobs that begin with received parameters."""
DEFAULT_SHARE = 0.01
"""Of the numbers, which top_k keeps."""


def applied(asked: dict[str, Any], consent: Consent) -> dict[str, Any]:
    """The terms of a round: those asked for, or the device's own where these are stricter."""
    norms = [norm for norm in (asked["clip_norm"], consent.clip_norm) if norm is not None]
    return {
        **asked,
        "clip_norm": min(norms, default=None),
        "noise_multiplier": max(asked["noise_multiplier"] or 0.0, consent.noise_multiplier),
        "compression": asked["compression"] or "none",
        "share": asked["share"] or DEFAULT_SHARE,
        "on_deadline": asked["on_deadline"] or "update",
        "min_samples": consent.min_samples,
    }


def start_with_sent(job: Job, store: Store) -> Start:
    """Start with the received parameters, and with the running statistics of `latest`.

    Samples of earlier rounds count as seen: these parameters may have been trained on them. Raises
    Damaged, NotFound.
    """
    base = store.models.get_by_id(job.model_id, base=job.base).base
    checkpoint = store.integrity.checkpoint_for(job.model_id, base)
    last = store.rounds.newest(job.model_id)
    return Start(
        how="base" if checkpoint is None else "parameters",
        checkpoint=None if checkpoint is None else str(store.files.path(checkpoint.file.sha256)),
        from_job=None if last is None else last.job.id,
        given=_path(job.id, "parameters", store),
    )


def update_terms(job: Job, model: Model, store: Store) -> UpdateTerms | None:
    """The terms of a round's update, None for other jobs.

    Raises NotConsented if a person has taken the consent back meanwhile, Damaged, NotFound.
    """
    if job.start != ROUND:
        return None
    now = store.rounds.get(job.id)
    require_consent(model, now.federation)
    last = store.rounds.newest(job.model_id)
    residual = None
    if last is not None and last.federation == now.federation:
        residual = store.rounds.file(last.job.id, "residual")
    terms = dict(now.terms)
    deadline = now.deadline if terms.pop("on_deadline") == "update" else None
    return UpdateTerms(
        given=_path(job.id, "parameters", store),
        residual=None if residual is None else str(store.integrity.file(residual.sha256)),
        deadline=None if deadline is None else deadline.timestamp(),
        **terms,
    )


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


def _path(job_id: int, role: FileRole, store: Store) -> str:
    file = store.rounds.file(job_id, role)
    if file is None:
        raise NotFound(f"the {role} that job {job_id} begins with are gone; send them again")
    return str(store.integrity.file(file.sha256))
