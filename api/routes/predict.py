"""Predictions of the promoted version."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response

from api import threads
from api.access.auditing import recorded_change
from api.access.scopes import ThePrincipal, needs
from api.bodies.samples import CSV, FILES, JSON, NPZ, TEXT, files_of
from api.bodies.uploads import require_media_type, require_room_for
from api.dependencies import TheDaemon
from api.inference import NOT_LOADED, accepted, near, not_loaded, read_body
from api.openapi import BINARY, PREDICTION_FAULTS, body, closed
from api.routing import MASK_TYPE, Route
from api.schemas.versions import PredictionsBody
from service.access.principal import Scope
from service.daemon import Daemon
from service.errors import InvalidInput
from service.prediction import inputs as bodies
from service.prediction.answers import Fields, arrays_of, as_bytes, as_json, as_npz
from service.prediction.inputs import READERS
from service.prediction.pixels import MASKS, as_runs, with_masks
from service.prediction.predictor import Prediction, Serving
from service.prediction.results import Wanted, interpret
from service.preprocess.masks.labels import as_png
from service.samples.ingest.require import require_tensors, takes_files
from service.samples.ingest.texts import texts_of
from service.training.tasks import TASKS
from storage.errors import Problem
from storage.records.models import Model
from storage.records.versions import Version

router = APIRouter(prefix="/v1/models/{name}", tags=["prediction"], route_class=Route)

ONE_INSTANCE = closed(
    "inputs", inputs={"type": "object", "description": "Nested lists by input name."}
)
ONE_TEXT = closed("text", text={"type": "string"}, text_pair={"type": "string"})
INPUTS = body(
    {
        JSON: {
            "schema": {
                "anyOf": [
                    ONE_INSTANCE,
                    ONE_TEXT,
                    *(
                        {
                            "type": "object",
                            "required": ["instances"],
                            "properties": {"instances": {"type": "array", "items": one}},
                        }
                        for one in (ONE_INSTANCE, ONE_TEXT)
                    ),
                ]
            },
            "examples": {
                "one": {"value": {"inputs": {"x": [0.1, 0.2]}}},
                "text": {"value": {"text": "The train was late again."}},
                "batch": {"value": {"instances": [{"inputs": {"x": [0.1, 0.2]}}]}},
            },
        },
        CSV: {"schema": {"type": "string"}, "example": "width,height\n0.1,0.2\n"},
        **dict.fromkeys((NPZ, *FILES), BINARY),
        TEXT: {"schema": {"type": "string"}, "example": "The train was late again."},
    }
)


OCTETS = "application/octet-stream"
VERSION, DTYPE, SHAPE = "Honed-Version", "Honed-Dtype", "Honed-Shape"
HEADERS = {
    VERSION: "The version that answers.",
    NOT_LOADED: "The promoted version, if it cannot be loaded.",
    DTYPE: "Of application/octet-stream: numpy's name of the numbers' type.",
    SHAPE: "Of application/octet-stream: sizes with commas between, instances first.",
}
ANSWER: dict[int | str, dict[str, Any]] = {
    200: {
        "content": dict.fromkeys((NPZ, OCTETS, MASK_TYPE), BINARY),
        "headers": {
            name: {"description": told, "schema": {"type": "string"}}
            for name, told in HEADERS.items()
        },
    }
}


async def asked_version(
    name: str,
    daemon: TheDaemon,
    version: Annotated[
        int | None, Query(ge=1, lt=2**63, description="This version, promoted or not.")
    ] = None,
) -> Version | None:
    """The version to predict with; None for that which apps fetch."""
    if version is None:
        return None
    model = (await daemon.latest.get(name)).model
    return await asyncio.to_thread(daemon.store.versions.get, model.id, version)


AskedVersion = Annotated[Version | None, Depends(asked_version)]


@router.post(
    "/predict",
    summary="Predict",
    response_model=PredictionsBody,
    responses=ANSWER,
    openapi_extra=INPUTS,
)
@needs(Scope.PREDICT, *PREDICTION_FAULTS, "storage_full", counted="predictions", audited="skip")
async def predict(
    name: str,
    request: Request,
    daemon: TheDaemon,
    principal: ThePrincipal,
    version: AskedVersion,
    keep: Annotated[
        bool, Query(description="Store the inputs as unlabelled samples and return their ids.")
    ] = False,
    top: Annotated[
        int | None, Query(ge=1, le=2**31, description="Only this many of the likeliest classes.")
    ] = None,
    output: Annotated[
        tuple[str, ...], Query(description="An output of the model, as it is; may be repeated.")
    ] = (),
    masks: Annotated[
        bool, Query(description="Of a model of masks: run lengths in the photo's own pixels.")
    ] = False,
) -> Response:
    """One instance or a batch, of inputs or of texts, or an image or recording, as the model takes.

    Inputs are as they were uploaded for training: the model's `preprocess` is applied. Tensors for
    a model that takes files are taken as they are. `Accept` chooses JSON, npz, or the bytes of one
    array, or a mask as PNG. `keep` needs the scope `samples:write` as well.
    """
    if keep:
        principal.require(Scope.SAMPLES_WRITE, name)
        require_room_for(request, daemon)
    form = accepted(request, (JSON, NPZ, OCTETS, MASK_TYPE))
    wanted = Wanted(top, output)
    if form in (OCTETS, MASK_TYPE):
        _require_one_array(wanted, form, keep=keep)
    model = (await daemon.latest.get(name)).model
    prediction, store = await _predict(request, daemon, model, version, principal.owner, keep=keep)
    serving, outputs = prediction.serving, prediction.outputs
    size = 8 * sum(array.nbytes for array in outputs.values())
    told = await near(size, interpret, prediction, wanted)
    if masks or form == MASK_TYPE:
        asked = "/query/masks" if masks else "/header/accept"
        told = await near(size, with_masks, serving.model, told, prediction.sizes, pointer=asked)
    fields = told if form in (JSON, MASK_TYPE) else arrays_of(told)
    ids = await _store(request, store) if keep else None
    content, headers = await near(size, WRITERS[form], serving, fields, ids)
    headers |= {VERSION: str(serving.version.version), **not_loaded(serving)}
    return Response(content, media_type=form, headers=headers)


async def _predict(
    request: Request,
    daemon: Daemon,
    model: Model,
    version: Version | None,
    owner: str | None,
    *,
    keep: bool,
) -> tuple[Prediction, Callable[[], list[int]]]:
    """The model's outputs for a body, and what stores its inputs as samples."""
    media_type = require_media_type(
        request, *READERS, *(files_of(model) if takes_files(model) else ())
    )
    max_bytes = daemon.settings.prediction_body_bytes
    content = await read_body(request, max_bytes=max_bytes)
    files = await _files(model, media_type, content)
    if files is not None:
        prediction = await daemon.predictor.predict_files(model.name, files, version)
        return prediction, partial(bodies.keep, daemon.store, model, files, owner)
    if keep:
        require_tensors(model)
    size = max_bytes if media_type == CSV else len(content)  # its windows may be far larger
    async with threads.reading(request, 0 if media_type == NPZ else len(content)):
        batch = await near(size, READERS[media_type], model, content, max_bytes)
    inputs = batch.tensors(model.signature.inputs)
    prediction = await daemon.predictor.predict(model.name, inputs, version)
    return prediction, partial(bodies.keep, daemon.store, model, batch, owner)


async def _files(model: Model, content_type: str, content: bytes) -> Sequence[bytes] | None:
    """The files or texts of a body; None if it holds tensors."""
    texts = texts_of(model)
    if texts is not None and content_type == CSV:
        return await near(len(content), bodies.read_csv_texts, model, texts, content)
    read = {TEXT: bodies.read_text, JSON: bodies.read_texts}.get(content_type)
    if texts is not None and read is not None:
        return await near(len(content), read, texts, content)
    return [content] if content_type in FILES else None


def _require_one_array(wanted: Wanted, form: str, *, keep: bool) -> None:
    """Raises InvalidInput for what the bytes of one array, or of one mask, cannot say."""
    most = 1 if form == OCTETS else 0
    said = {"keep": keep, "top": wanted.top is not None, "output": len(wanted.outputs) > most}
    if too_much := [name for name in said if said[name]]:
        detail = f"{form} is one array; accept {NPZ} or {JSON}"
        problems = [Problem(f"/query/{name}", detail) for name in too_much]
        raise InvalidInput("the answer does not fit into one array", problems=problems)


async def _store(request: Request, keep: Callable[[], list[int]]) -> list[int]:
    """Store samples, with an entry in the audit log; returns their ids."""
    with recorded_change(request.scope, "samples"):
        return await asyncio.to_thread(keep)


Written = tuple[bytes, dict[str, str]]
"""A body and its headers."""


def _json(serving: Serving, fields: Fields, ids: list[int] | None) -> Written:
    target = serving.version.target
    classes = target.classes
    about = {
        "model": serving.model.name,
        "version": serving.version.version,
        "classes": list(classes) if classes else None,
    }
    if ids is not None:
        about["ids"] = ids
    if MASKS in fields:
        fields = {**fields, MASKS: as_runs(fields[MASKS], classes)}
    of_values = target.number_names if TASKS[serving.model.loss].takes_class_names else ()
    return as_json(fields, names=classes, of_values=of_values, **about), {}


def _npz(_: Serving, fields: Fields, ids: list[int] | None) -> Written:
    return as_npz(fields, ids), {}


def _octets(_: Serving, fields: Fields, __: list[int] | None) -> Written:
    """The last field: the output that was named, the numbers of the rest, or a class for each."""
    array = list(fields.values())[-1]
    return as_bytes(array), {DTYPE: array.dtype.name, SHAPE: ",".join(map(str, array.shape))}


def _mask(_: Serving, fields: Fields, __: list[int] | None) -> Written:
    """Of the only photo."""
    if len(fields[MASKS]) != 1:
        detail = f"{len(fields[MASKS])} masks are no one PNG; accept {JSON}, with ?masks=true"
        raise InvalidInput.at("/header/accept", detail, title="send one")
    return as_png(fields[MASKS][0]), {}


WRITERS = {JSON: _json, NPZ: _npz, OCTETS: _octets, MASK_TYPE: _mask}
