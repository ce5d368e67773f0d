"""Parameters: downloaded from a version, uploaded to become one, or to be measured."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from starlette.responses import StreamingResponse

from api import present
from api.access.scopes import ThePrincipal, needs
from api.bodies.uploads import (
    json_part,
    require_media_type,
    require_room_for,
    spooled,
    spooled_part,
)
from api.dependencies import TheDaemon, TheModel, TheStore
from api.files import IMMUTABLE, REVALIDATE, is_known
from api.openapi import BINARY, KNOWN, body, form
from api.protocol import AUDIT_FACTS
from api.routing import Route
from api.schemas.federation import MeasuredBody, Personalization
from api.schemas.jobs import JobBody
from api.waiting import unless_gone
from service.access.principal import Principal, Scope
from service.errors import InvalidInput
from service.federation.consent import require_consent
from service.federation.parameters import parameters_of
from service.federation.rounds import require_tokenizer, require_validation, send_parameters
from storage.database.codec import dump
from storage.errors import pointer
from storage.records.models import Model

router = APIRouter(prefix="/v1/models/{name}", tags=["federation"], route_class=Route)

MEDIA_TYPE = "application/octet-stream"
TAKEN = (MEDIA_TYPE, "application/safetensors", "application/x-safetensors")
FORM = "multipart/form-data"
ANSWER: dict[int | str, dict[str, Any]] = {
    200: {"content": {MEDIA_TYPE: {}}, "description": "safetensors, by name."},
    **KNOWN,
}
OfTokenizer = Annotated[
    str | None,
    Query(
        pattern="^[0-9a-f]{64}$",
        description="Of a model of texts: the SHA-256 of the tokenizer.json that they are for.",
    ),
]


@router.get("/parameters", summary="Download parameters", response_class=Response, responses=ANSWER)
@needs(Scope.MODELS_READ, "damaged", "state_conflict", audited="export")
def version_parameters(
    request: Request,
    model: TheModel,
    store: TheStore,
    version: Annotated[
        int | None, Query(ge=1, lt=2**63, description="Of this version; by default `latest`.")
    ] = None,
) -> Response:
    """The trained parameters of a version as safetensors, float32, in the order of their names."""
    if version is None:
        row = store.versions.by_alias(model.id, "latest")
    else:
        row = store.versions.get(model.id, version)
    parameters = parameters_of(model, row, store)
    headers = {
        "ETag": f'"{parameters.key}"',
        "Cache-Control": REVALIDATE if version is None else IMMUTABLE,
    }
    if is_known(request, headers["ETag"]):
        return Response(status_code=304, headers=headers)
    headers["Content-Length"] = str(parameters.size_bytes)
    return StreamingResponse(parameters.pieces(), headers=headers, media_type=MEDIA_TYPE)


@router.put(
    "/parameters",
    status_code=202,
    summary="Send parameters",
    openapi_extra=body(
        {
            **dict.fromkeys(TAKEN, BINARY),
            FORM: form(
                *("personalize", "Personalization", "parameters"),
                required=["parameters"],
                example={"personalize": {"epochs": 1}},
            ),
        }
    ),
)
@needs(Scope.FEDERATE, "busy", "no_samples", "not_consented", "storage_full", counted="uploads")
async def put_parameters(
    request: Request,
    response: Response,
    model: TheModel,
    daemon: TheDaemon,
    principal: ThePrincipal,
    tokenizer_sha256: OfTokenizer = None,
) -> JobBody:
    """Queues a job that makes a version of them, which the gate judges as any other; `latest` moves
    only if it passes. safetensors, or a form with `parameters` and `personalize` (JSON).

    A token without `models:admin` needs the model's consent too.
    """
    _require_consent_of_others(principal, model)
    require_tokenizer(model, tokenizer_sha256, at="/query/tokenizer_sha256")
    require_room_for(request, daemon)
    folder = daemon.store.tmp_dir
    send = partial(send_parameters, model, store=daemon.store)
    if require_media_type(request, *TAKEN, FORM) == FORM:
        async with request.form(max_files=2, max_fields=2) as form:
            course = await json_part(form, "personalize", Personalization)
            async with spooled_part(parameters_in(form, "personalize"), folder=folder) as path:
                asked = course and course.model_dump(exclude_none=True)
                job = await asyncio.to_thread(send, path, personalize=asked)
    else:
        async with spooled(request, folder=folder) as path:
            job = await asyncio.to_thread(send, path, personalize=None)
    response.headers["Location"] = f"/v1/jobs/{job.id}"
    return present.job(job)


@router.post(
    "/evaluate", summary="Measure parameters", openapi_extra=body(dict.fromkeys(TAKEN, BINARY))
)
@needs(
    Scope.FEDERATE,
    "no_samples",
    "not_consented",
    "storage_full",
    "too_few_samples",
    counted="uploads",
    audited="export",
)
async def measure_parameters(
    request: Request,
    model: TheModel,
    daemon: TheDaemon,
    principal: ThePrincipal,
    tokenizer_sha256: OfTokenizer = None,
) -> MeasuredBody:
    """Metrics of these parameters (safetensors) on the model's own validation samples. They leave
    without noise, and no budget counts them: docs/rounds.md.
    """
    require_media_type(request, *TAKEN)
    if _require_consent_of_others(principal, model):
        await asyncio.to_thread(require_validation, model, daemon.store)
    require_tokenizer(model, tokenizer_sha256, at="/query/tokenizer_sha256")
    require_room_for(request, daemon)
    async with spooled(request, folder=daemon.store.tmp_dir) as path:
        metrics = await unless_gone(request, daemon.measuring.measure(model, path))
    request.scope[AUDIT_FACTS] = dump({"samples": metrics.get("samples", 0)})
    return MeasuredBody(metrics=figures(metrics) or {})


def _require_consent_of_others(principal: Principal, model: Model) -> bool:
    """Whether the principal is not the model's own admin. Raises NotConsented."""
    if principal.has(Scope.MODELS_ADMIN, model.name):
        return False
    require_consent(model, None)
    return True


def figures(metrics: dict[str, Any] | None) -> dict[str, Any] | None:
    """The scalar metrics: those per class would reveal which classes a device has."""
    return metrics and {name: each for name, each in metrics.items() if not isinstance(each, list)}


def parameters_in(form: Any, beside: str) -> Any:
    """The file of a form, which has one other part at most. Raises InvalidInput."""
    if unknown := sorted(form.keys() - {"parameters", beside}):
        detail = f'there is no such part; there are "parameters" and "{beside}"'
        raise InvalidInput.at(pointer(unknown[0]), detail, title="the form is wrong")
    parts = form.getlist("parameters")
    part = parts[0] if len(parts) == 1 else None
    if part is None or isinstance(part, str):
        there = f"there {len(parts)} times" if parts[1:] else "missing"
        detail = f'the part "parameters" is {there}; it holds a safetensors file, once'
        raise InvalidInput.at("/parameters", detail, title="the form is wrong")
    return part
