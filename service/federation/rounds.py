"""Rounds: jobs that start from received parameters, and end in an update instead of a version.

Parameters received to become a version are a job as well: without steps, or with a few steps that
personalize them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from service.errors import InvalidInput, QuotaExceeded
from service.federation.accounting import require_budget
from service.federation.consent import Consent, consent_of, require_consent
from service.federation.parameters import check_parameters
from service.federation.terms import applied
from service.jobs.enqueue import random_seed
from service.models.hyperparameters import check_hyperparameters, merge
from service.models.prepared import TOKENIZER
from service.training.errors import NoSamples, TooFewSamples
from service.training.hyperparameters import ABOUT, LENGTHS
from storage.database.codec import utc_now
from storage.errors import Problem, counted
from storage.records.federation import ROUND, SENT, NewRound, Round
from storage.records.jobs import Job, NewJob
from storage.records.models import Model
from storage.store import Store

OF_THE_SERVER = {"auto", *(n for n, about in ABOUT.items() if about.sets in ("length", "course"))}
"""Hyperparameters of a model's own jobs that a round ignores."""


def begin_round(model: Model, path: Path, asked: Mapping[str, Any], *, store: Store) -> Round:
    """Queue a round with the parameters at path; the file is moved.

    asked: fields of api.schemas.federation.RoundRequest. Raises NotConsented, PrivacyBudgetSpent,
    TooFewSamples, QuotaExceeded, StateConflict, InvalidInput; then nothing has changed.
    """
    consent = require_consent(model, asked["superlink"])
    require_tokenizer(model, asked.get("tokenizer_sha256"), at="/spec/tokenizer_sha256")
    check_parameters(model, store, path)
    names = ("clip_norm", "noise_multiplier", "compression", "share", "on_deadline")
    terms = applied({name: asked[name] for name in names}, consent)
    if problems := [*_wrong_terms(asked, terms)]:
        raise InvalidInput("the round is wrong", problems=problems)
    wanted = _hyperparameters(model, asked)
    _require_samples(model, consent, wanted)
    require_budget(model, consent, store.rounds.spent(model), terms["noise_multiplier"])
    _require_room_today(model, consent, store, utc_now())
    seconds = asked["deadline_seconds"]
    assert consent.superlink is not None
    with store.files.adopting() as adopt:
        return store.rounds.begin(
            NewRound(
                job=NewJob(model.id, ROUND, wanted, ROUND),
                federation=consent.superlink,
                number=asked["round"],
                terms=terms,
                deadline=None if seconds is None else utc_now() + timedelta(seconds=seconds),
            ),
            adopt(path),
        )


def _wrong_terms(asked: Mapping[str, Any], terms: Mapping[str, Any]) -> Iterator[Problem]:
    """What is asked for without that which it is about, and would be ignored."""
    if terms["noise_multiplier"] and terms["clip_norm"] is None:
        yield Problem("/spec/clip_norm", "noise is in proportion to clip_norm: send it too")
    if asked["on_deadline"] is not None and asked["deadline_seconds"] is None:
        yield Problem("/spec/on_deadline", "there is no deadline: send deadline_seconds too")
    if asked["share"] is not None and terms["compression"] != "top_k":
        yield Problem("/spec/share", 'only top_k keeps a share: send "compression": "top_k" too')


def require_tokenizer(model: Model, sha256: str | None, *, at: str) -> None:
    """Raises InvalidInput unless parameters are for the model's tokenizer: those for another have
    the same shapes, and mean other tokens.
    """
    file = model.files.get(TOKENIZER)
    own = None if file is None else file.sha256
    if sha256 == own:
        return
    detail = (
        f"{model.name!r} has no tokenizer: leave it out"
        if own is None
        else f"the tokenizer of {model.name!r} has the SHA-256 {own}; devices and server need one"
    )
    raise InvalidInput.at(at, detail, title="these are for another tokenizer")


def send_parameters(
    model: Model, path: Path, *, store: Store, personalize: Mapping[str, Any] | None
) -> Job:
    """Queue a job that makes a version of the parameters at path, for the gate to judge.

    personalize: hyperparameters for training them first; None for those of the consent, if any.
    Raises InvalidInput, NoSamples; then nothing has changed.
    """
    check_parameters(model, store, path)
    if model.samples.train == 0:
        raise NoSamples(
            f"model {model.name!r} has no labelled training samples to take parameters with; send "
            f"some to /v1/models/{model.name}/samples first"
        )
    course = consent_of(model).personalize if personalize is None else personalize
    wanted = _hyperparameters(model, course or {})
    if not course:
        wanted["epochs"] = 0
    with store.files.adopting() as adopt:
        return store.rounds.begin_job(NewJob(model.id, SENT, wanted, SENT), adopt(path))


def _hyperparameters(model: Model, asked: Mapping[str, Any]) -> dict[str, Any]:
    """What the server asks for, and the model's own for the rest. Raises InvalidInput."""
    own = {n: v for n, v in model.hyperparameters.items() if n not in OF_THE_SERVER}
    names = ("epochs", "max_steps", "learning_rate", "batch_size", "seed")
    wanted = {name: asked[name] for name in names if asked.get(name) is not None}
    if asked.get("proximal_mu") is not None:
        wanted["l2_sp"] = asked["proximal_mu"]
    if not any(name in wanted for name in LENGTHS):
        wanted["epochs"] = 1
    plain = replace(model, hyperparameters=own)
    check_hyperparameters(plain, wanted, at="/spec")
    # A round trains only on the device's own samples; every device has the base set.
    return {**merge(plain, wanted, seed=random_seed()), "replay": 0.0}


def _require_samples(model: Model, consent: Consent, wanted: Mapping[str, Any]) -> None:
    """Raises TooFewSamples if the update would come from fewer samples than the device allows."""
    most = model.samples.train
    if wanted.get("max_steps"):
        per_step = wanted["batch_size"] * wanted["accumulation_steps"]
        most = min(most, wanted["max_steps"] * per_step)
    if most < consent.min_samples:
        raise TooFewSamples(
            f"the update would come from {counted(most, 'sample')} of {model.name!r}; no "
            f"update leaves of fewer than {consent.min_samples} (min_samples)"
        )


def require_validation(model: Model, store: Store) -> None:
    """Raises TooFewSamples if metrics would reveal single samples, because there are so few."""
    fewest = consent_of(model).min_samples
    different = store.sample_stats.different_validation(model.id)
    if different < fewest:
        raise TooFewSamples(
            f"{model.name!r} has {counted(different, 'different validation sample')}; metrics "
            f"of fewer than {fewest} (min_samples) do not leave"
        )


def _require_room_today(model: Model, consent: Consent, store: Store, now: datetime) -> None:
    most = consent.max_rounds_per_day
    if most is None or store.rounds.today(model.id, now.date().isoformat()) < most:
        return
    midnight = (now + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
    raise QuotaExceeded(
        f"{model.name!r} trains {most} rounds a day at most (max_rounds_per_day), which it has",
        retry_after_s=int((midnight - now).total_seconds()) + 1,
    )
