"""Predictions of the promoted version."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from api.access.auditing import recorded_change
from api.access.scopes import ThePrincipal, needs
from api.bodies.samples import CSV, FILES, JSON, NPZ
from api.bodies.uploads import require_media_type
from api.dependencies import TheDaemon
from api.inference import near, not_loaded, read_body
from api.openapi import answers, body
from api.routes.uploads import BINARY
from api.routing import Route
from api.schemas import PredictionsBody
from service.access.principal import Scope
from service.prediction import inputs as bodies
from service.prediction.inputs import READERS
from service.prediction.predictor import Prediction
from service.prediction.results import interpret
from service.samples.ingest.require import require_tensors, takes_files
from storage.database.codec import dump

router = APIRouter(prefix="/v1/models/{name}", tags=["prediction"], route_class=Route)

ONE_INSTANCE = {
    "type": "object",
    "required": ["inputs"],
    "additionalProperties": False,
    "properties": {"inputs": {"type": "object", "description": "Nested lists by input name."}},
}
INPUTS = body(
    {
        JSON: {
            "schema": {
                "oneOf": [
                    ONE_INSTANCE,
                    {
                        "type": "object",
                        "required": ["instances"],
                        "properties": {"instances": {"type": "array", "items": ONE_INSTANCE}},
                    },
                ]
            },
            "examples": {
                "one": {"value": {"inputs": {"x": [0.1, 0.2]}}},
                "batch": {"value": {"instances": [{"inputs": {"x": [0.1, 0.2]}}]}},
            },
        },
        CSV: {"schema": {"type": "string"}, "example": "width,height\n0.1,0.2\n"},
        **dict.fromkeys((NPZ, *FILES), BINARY),
    }
)


@router.post(
    "/predict",
    summary="Predict",
    response_model=PredictionsBody,
    responses=answers(
        "busy",
        "child_died",
        "invalid_input",
        "model_not_loadable",
        "not_found",
        "prediction_failed",
        "prediction_timeout",
        "storage_full",
        "too_large",
        "unsupported_media_type",
    ),
    openapi_extra=INPUTS,
)
@needs(Scope.PREDICT, counted="predictions", audited="skip")
async def predict(
    name: str,
    request: Request,
    daemon: TheDaemon,
    principal: ThePrincipal,
    keep: Annotated[
        bool, Query(description="Store the inputs as unlabelled samples and return their ids.")
    ] = False,
) -> Response:
    """One instance or a batch, or an image or recording for a model that takes such.

    Inputs are as they were uploaded for training: the model's `preprocess` is applied. Tensors for
    a model that takes files are taken as they are. Header `Honed-Not-Loaded`: the promoted
    version, if it is broken. `keep` needs the scope `samples:write` as well.
    """
    if keep:
        principal.require(Scope.SAMPLES_WRITE, name)
    model = (await daemon.latest.get(name)).model
    files = FILES if takes_files(model) else ()
    given = require_media_type(request, *READERS, *files)
    max_bytes = daemon.settings.prediction_body_bytes
    content = await read_body(request, max_bytes=max_bytes)
    store, owner = daemon.store, principal.owner
    if given in FILES:
        prediction = await daemon.predictor.predict_files(name, [content])
        kept = partial(bodies.keep_file, store, model, content, owner)
    else:
        if keep:
            require_tensors(model)
        size = max_bytes if given == CSV else len(content)  # its windows may be far larger
        batch = await near(size, READERS[given], model, content, max_bytes)
        prediction = await daemon.predictor.predict(name, batch.tensors(model.signature.inputs))
        kept = partial(bodies.keep, store, model, batch, owner)
    ids = await _store(request, kept) if keep else None
    size = sum(output.nbytes for output in prediction.outputs.values())
    answer = await near(8 * size, _answer, prediction, ids)
    return Response(answer, media_type=JSON, headers=not_loaded(prediction.serving))


async def _store(request: Request, keep: Callable[[], list[int]]) -> list[int]:
    """Store samples, with an entry in the audit log; returns their ids."""
    with recorded_change(request.scope, "samples"):
        return await asyncio.to_thread(keep)


def _answer(prediction: Prediction, ids: list[int] | None) -> bytes:
    serving = prediction.serving
    classes = serving.version.target.classes
    content = {
        "model": serving.model.name,
        "version": serving.version.version,
        "classes": list(classes) if classes else None,
        "predictions": interpret(serving.model, prediction.outputs, classes=classes),
    }
    if ids is not None:
        content["ids"] = ids
    return dump(content).encode()
