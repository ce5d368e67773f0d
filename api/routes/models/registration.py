"""Uploaded models: diagnosis and registration."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.datastructures import FormData, UploadFile

from api import present
from api.access.scopes import ThePrincipal, needs
from api.bodies.uploads import json_part, require_media_type, require_room_for, spooled_part
from api.dependencies import TheDaemon
from api.openapi import body, form
from api.routing import Route
from api.schemas.diagnosis import DiagnosisBody, DiagnosisSpecBody
from api.schemas.models import Adapters, LoraSettings, LossOutput, ModelBody, ModelSpecBody
from api.waiting import unless_gone
from service.access.principal import Scope
from service.daemon import Daemon
from service.errors import InvalidInput
from service.models.prepared import TOKENIZER
from service.models.specification import Form, ModelSpec, only_adapters
from service.preprocess.text_inputs import MAX_TOKENIZER_BYTES
from service.training.protocol.messages.preparation import Lora
from service.training.tasks import FITS_ALL, OWN
from storage.database.audit_chain import about

router = APIRouter(prefix="/v1", tags=["models"], route_class=Route)

PARTS: dict[str, Form] = {"model": "forward", "artifacts": "artifacts"}
MAX_PARTS = 3


EXAMPLE = {"spec": {"name": "digits", "loss": "cross_entropy"}}


def form_schema(
    spec: str, required: list[str], example: dict[str, Any] = EXAMPLE
) -> dict[str, Any]:
    """The OpenAPI schema of a form with a file and its spec."""
    parts = ("spec", spec, *PARTS, TOKENIZER)
    return body({"multipart/form-data": form(*parts, required=required, example=example)})


UPLOAD = form_schema("ModelSpecBody", ["spec"])
DIAGNOSED = form_schema("DiagnosisSpecBody", [])


@router.post("/models", status_code=201, summary="Register a model", openapi_extra=UPLOAD)
@needs(
    Scope.MODELS_ADMIN,
    "already_exists",
    "busy",
    "graph_refused",
    "preparation_failed",
    "storage_full",
    counted="registrations",
)
async def register(
    request: Request, response: Response, daemon: TheDaemon, principal: ThePrincipal
) -> ModelBody:
    """Parts: `spec` (JSON), either `model` (a forward ONNX file) or `artifacts` (a zip), and, for a
    model of texts, `tokenizer` (tokenizer.json).
    """
    require_media_type(request, "multipart/form-data")
    require_room_for(request, daemon)
    async with request.form(max_files=MAX_PARTS, max_fields=4) as form:
        spec = _spec(await _described(form))
        principal.require(Scope.MODELS_ADMIN, spec.name)
        about(spec.name)
        async with spooled_model(form, daemon) as (name, path, tokenizer):
            registering = daemon.registry.register(
                spec, path, form=PARTS[name], tokenizer=tokenizer
            )
            model = await unless_gone(request, registering)
    response.headers["Location"] = f"/v1/models/{model.name}"
    return present.model(model)


@router.post("/diagnosis", summary="Diagnose a model", openapi_extra=DIAGNOSED)
@needs(
    Scope.MODELS_ADMIN,
    "busy",
    "graph_refused",
    "preparation_failed",
    "storage_full",
    counted="registrations",
    audited="skip",
)
async def diagnose(request: Request, daemon: TheDaemon, principal: ThePrincipal) -> DiagnosisBody:
    """What a file holds and what of it would train, before it is registered. Stores nothing.

    Parts as at registration; of `spec`, which may be left out, nothing is required. What cannot be
    read is refused as there; what keeps the rest from being registered is in `problems`.
    """
    require_media_type(request, "multipart/form-data")
    require_room_for(request, daemon)
    async with request.form(max_files=MAX_PARTS, max_fields=4) as form:
        spec = await json_part(form, "spec", DiagnosisSpecBody) or DiagnosisSpecBody()
        if spec.name:
            principal.require(Scope.MODELS_ADMIN, spec.name)
        async with spooled_model(form, daemon) as (name, path, tokenizer):
            diagnosing = daemon.registry.diagnose(
                _spec(spec),
                path,
                form=PARTS[name],
                names_loss=spec.loss is not None,
                tokenizer=tokenizer,
            )
            diagnosis = await unless_gone(request, diagnosing)
    return present.diagnosis(diagnosis)


async def _described(form: FormData) -> ModelSpecBody:
    spec = await json_part(form, "spec", ModelSpecBody)
    if spec is None:
        raise wrong_form("/spec", 'the part "spec" is missing; it holds JSON')
    return spec


def _spec(spec: ModelSpecBody) -> ModelSpec:
    listed = spec.trainable or []
    return ModelSpec(
        name=spec.name,
        loss=OWN if isinstance(spec.loss, LossOutput) else spec.loss or FITS_ALL,
        loss_output=spec.loss.output if isinstance(spec.loss, LossOutput) else None,
        optimizer=spec.optimizer,
        output=spec.output,
        trainable=tuple(entry for entry in listed if isinstance(entry, str)) or None,
        lora=only_adapters([_lora(entry.lora) for entry in listed if isinstance(entry, Adapters)]),
        classes=tuple(spec.classes) if spec.classes else None,
        hyperparameters=spec.hyperparameters.model_dump(exclude_none=True),
        gate=spec.gate.model_dump(exclude_none=True),
        retention=spec.retention.model_dump(exclude_unset=True),
        preprocess=tuple(spec.preprocess),
        keeps_duplicates=spec.duplicates == "keep",
        features=None if spec.features is None else tuple(spec.features),
        batch_norm=spec.batch_norm,
    )


def _lora(settings: LoraSettings) -> Lora:
    return Lora(settings.rank, settings.alpha, tuple(settings.targets))


@asynccontextmanager
async def spooled_model(
    form: FormData, daemon: Daemon
) -> AsyncIterator[tuple[str, Path, Path | None]]:
    """The name of the part with the model, its file, and the tokenizer's, if there is one."""
    name, upload, tokenizer = _uploads(form)
    folder = daemon.store.tmp_dir
    async with spooled_part(upload, folder=folder) as path:
        if tokenizer is None:
            yield name, path, None
            return
        async with spooled_part(tokenizer, folder=folder) as beside:
            yield name, path, beside


def _uploads(form: FormData) -> tuple[str, UploadFile, UploadFile | None]:
    parts = [(name, part) for name, part in form.multi_items() if name != "spec"]
    named = {name: _file(name, part) for name, part in parts}
    tokenizer = named.pop(TOKENIZER, None)
    if len(named) != 1 or len(parts) != 1 + (tokenizer is not None) or not named.keys() <= {*PARTS}:
        names = [name for name, _ in parts]
        detail = f'beside "spec" send one part, "model" or "artifacts"; there are {names}'
        raise wrong_form("", detail)
    if tokenizer is not None and (tokenizer.size or 0) > MAX_TOKENIZER_BYTES:
        detail = f"a tokenizer.json has at most {MAX_TOKENIZER_BYTES} bytes"
        raise wrong_form(f"/{TOKENIZER}", detail)
    ((name, part),) = named.items()
    return name, part, tokenizer


def _file(name: str, part: UploadFile | str) -> UploadFile:
    if not isinstance(part, UploadFile):
        raise wrong_form(f"/{name}", f'the part "{name}" is a file: give it a filename')
    return part


def wrong_form(pointer: str, detail: str) -> InvalidInput:
    return InvalidInput.at(pointer, detail, title="the form is wrong")
