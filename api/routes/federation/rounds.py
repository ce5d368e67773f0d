"""Rounds of federated training: begin, show, fetch the update, stop; and the consent to them."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response
from msgspec.structs import replace

from api import present
from api.access.auditing import note_model
from api.access.scopes import ThePrincipal, needs
from api.bodies.uploads import json_part, require_media_type, require_room_for, spooled_part
from api.dependencies import Id, TheDaemon, TheModel, TheStore
from api.files import file_answer
from api.openapi import body, file_answers, form
from api.protocol import AUDIT_FACTS
from api.routes.federation.parameters import FORM, MEDIA_TYPE, figures, parameters_in
from api.routing import Route
from api.schemas.federation import FederationBody, RoundBody, RoundRequest, SpentBody, TermsBody
from service.access.principal import Scope
from service.errors import InvalidInput
from service.federation.accounting import epsilon_spent
from service.federation.consent import consent_of, require_consent
from service.federation.rounds import begin_round
from service.jobs.scheduler import ENDED
from storage.database.codec import dump, utc_now
from storage.errors import StateConflict
from storage.records.federation import PrivacySpent, Round
from storage.records.jobs import JobState
from storage.records.models import Model
from storage.tables.rounds import no_round

router = APIRouter(prefix="/v1", tags=["federation"], route_class=Route)

EXAMPLE = {"spec": {"round": 3, "epochs": 1, "learning_rate": 0.01}}
PARTS = ("spec", "parameters")
UPLOAD = body({FORM: form("spec", "RoundRequest", "parameters", required=PARTS, example=EXAMPLE)})


async def seen_round(
    request: Request,
    round_id: Id,
    store: TheStore,
    principal: ThePrincipal,
) -> Round:
    """The round in the path. Raises NotFound if its model is outside the token's restriction."""
    row = await asyncio.to_thread(store.rounds.get, round_id)
    if not principal.sees(row.job.model):
        raise no_round(round_id)
    note_model(request.scope, row.job.model)
    return row


TheRound = Annotated[Round, Depends(seen_round)]


@router.get("/models/{name}/federation", summary="Show consent and budget")
@needs(Scope.MODELS_READ)
def show_federation(model: TheModel, store: TheStore) -> FederationBody:
    """Whether the model takes part in federated training, and what that has spent of its privacy.

    PATCH of the model changes it.
    """
    today = store.rounds.today(model.id, utc_now().date().isoformat())
    return _federation_body(model, store.rounds.spent(model), today)


@router.post(
    "/models/{name}/rounds", status_code=202, summary="Begin a round", openapi_extra=UPLOAD
)
@needs(
    Scope.FEDERATE,
    "busy",
    "no_samples",
    "not_consented",
    "privacy_budget_spent",
    "state_conflict",
    "storage_full",
    "too_few_samples",
    counted="uploads",
)
async def ask_for_round(
    request: Request, response: Response, model: TheModel, daemon: TheDaemon
) -> RoundBody:
    """Queues a job that trains from parameters, and ends in an update instead of a version. It
    waits for the policy as any job. Parts: `spec` (JSON) and `parameters` (safetensors).
    """
    require_media_type(request, FORM)
    require_room_for(request, daemon)
    async with request.form(max_files=2, max_fields=2) as form:
        spec = await json_part(form, "spec", RoundRequest)
        if spec is None:
            detail = 'the part "spec" is missing; it holds JSON'
            raise InvalidInput.at("/spec", detail, title="the form is wrong")
        async with spooled_part(parameters_in(form, "spec"), folder=daemon.store.tmp_dir) as path:
            asked, store = spec.model_dump(), daemon.store
            begun = await asyncio.to_thread(begin_round, model, path, asked, store=store)
    daemon.deadlines.look_again()
    response.headers["Location"] = f"/v1/rounds/{begun.job.id}"
    return _round_body(begun, has_update=False)


@router.get("/rounds/{round_id}", summary="Show a round")
@needs(Scope.FEDERATE)
def show_round(row: TheRound, store: TheStore, daemon: TheDaemon) -> RoundBody:
    """What it waits for, how far it is, and what came of it."""
    job = daemon.scheduler.shown(row.job)
    has_update = store.rounds.file(job.id, "update") is not None
    is_measured = job.metrics.get("validation") or job.metrics.get("baseline")
    different = store.sample_stats.different_validation(job.model_id) if is_measured else 0
    return _round_body(replace(row, job=job), has_update=has_update, different=different)


@router.get(
    "/rounds/{round_id}/update",
    summary="Fetch an update",
    response_class=Response,
    responses=file_answers({MEDIA_TYPE: {}}, "safetensors."),
)
@needs(Scope.FEDERATE, "not_consented", "range_not_satisfiable", "state_conflict", audited="export")
def round_update(request: Request, row: TheRound, store: TheStore) -> Response:
    """The trained parameters less those that were sent: clipped, noised and compressed by the terms
    of the round. There until the next round has one.
    """
    model = store.models.get_by_id(row.job.model_id)
    require_consent(model, row.federation)
    file = store.rounds.file(row.job.id, "update")
    if file is None:
        raise StateConflict(_no_update(row))
    facts = {"round": row.number, "federation": row.federation, **row.terms}
    request.scope[AUDIT_FACTS] = dump({**facts, **row.outcome})
    name = f"{model.name}-round-{row.number}.safetensors"
    return file_answer(request, store, file, media_type=MEDIA_TYPE, filename=name)


@router.delete("/rounds/{round_id}", summary="Stop a round")
@needs(Scope.FEDERATE)
async def stop_round(row: TheRound, daemon: TheDaemon) -> None:
    """Ends it within a second, without an update; of one that has ended, removes the update."""
    await daemon.deadlines.stop_round(row)


def _no_update(row: Round) -> str:
    job = row.job
    if job.state in ENDED:
        error = _round_body(row, has_update=False).error
        why = f": {error.detail}" if error else "; its update is gone, or never was"
        return f"round {row.number} is {job.state.value}{why}"
    return f"round {row.number} is {job.state.value}; ask again when it has succeeded"


def _federation_body(row: Model, spent: PrivacySpent, rounds_today: int) -> FederationBody:
    """A model's consent, and the privacy that was spent."""
    consent = consent_of(row)
    return FederationBody.of(
        consent,
        spent=SpentBody(
            epsilon=None if spent.unnoised else epsilon_spent(spent, delta=consent.delta),
            rounds=spent.rounds,
            rounds_without_noise=spent.unnoised,
        ),
        rounds_today=rounds_today,
    )


def _round_body(row: Round, *, has_update: bool, different: int = 0) -> RoundBody:
    """A round, without its norms, which only the audit log records, and without what its job tells
    of the training samples: the loss of a last epoch may be that of one sample.

    different: how many of the model's validation samples differ.
    """
    ended, late = row.job.finished_at, row.deadline
    if row.job.state is JobState.CANCELLED and ended and late and ended >= late:
        passed = {"code": "deadline_passed", "detail": "the deadline passed before it was done"}
        row = replace(row, job=replace(row.job, error=passed))
    return RoundBody.of(
        present.job(row.job),
        federation=row.federation,
        round=row.number,
        deadline=row.deadline,
        metrics={
            "ended": row.job.metrics.get("ended"),
            **{
                name: _of_enough(row, row.job.metrics.get(name), different)
                for name in ("validation", "baseline")
            },
        },
        terms=TermsBody(**row.terms),
        **{name: row.outcome.get(name) for name in ("samples", "bytes", "raw_bytes", "epsilon")},
        has_update=has_update,
    )


def _of_enough(row: Round, metrics: dict[str, Any] | None, different: int) -> dict[str, Any] | None:
    """The figures, None for those of fewer samples than may leave."""
    few = (
        metrics is not None and min(metrics.get("samples", 0), different) < row.terms["min_samples"]
    )
    return None if few else figures(metrics)
