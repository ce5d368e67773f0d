"""Prediction with the promoted version."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from api.dependencies import TheDaemon
from api.inference import near, not_loaded, read_body
from api.openapi import answers, body
from api.routes.samples import JSON, NPZ
from api.schemas import PredictionsBody
from api.uploads import require_media_type
from service.daemon import Daemon
from service.prediction import inputs as bodies
from service.prediction.inputs import READERS, Batch
from service.prediction.predictor import Prediction
from service.prediction.results import interpret
from storage.records import Model

router = APIRouter(prefix="/v1/models/{name}", tags=["prediction"])

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
        NPZ: {"schema": {"type": "string", "format": "binary"}},
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
async def predict(
    name: str,
    request: Request,
    daemon: TheDaemon,
    keep: Annotated[
        bool, Query(description="Store the inputs as unlabelled samples, and tell their ids.")
    ] = False,
) -> Response:
    """One instance or a batch. Header `Honed-Not-Loaded`: the promoted version, if it is broken."""
    given = require_media_type(request, *READERS)
    model = (await daemon.latest.get(name)).model
    max_bytes = daemon.settings.prediction_body_bytes
    content = await read_body(request, max_bytes=max_bytes)
    batch = await near(len(content), READERS[given], model, content, max_bytes)
    inputs = batch.tensors(model.signature.inputs)
    prediction = await daemon.predictor.predict(name, inputs)
    ids = await _keep(daemon, model, batch) if keep else None
    size = sum(output.nbytes for output in prediction.outputs.values())
    answer = await near(8 * size, _answer, prediction, ids)
    return Response(answer, media_type=JSON, headers=not_loaded(prediction.serving))


async def _keep(daemon: Daemon, model: Model, batch: Batch) -> list[int]:
    return await asyncio.to_thread(bodies.keep, daemon.store, model, batch)


def _answer(prediction: Prediction, ids: list[int] | None) -> bytes:
    serving = prediction.serving
    classes = serving.model.signature.target.classes
    content = {
        "model": serving.model.name,
        "version": serving.version.version,
        "classes": list(classes) if classes else None,
        "predictions": interpret(serving.model, prediction.outputs),
    }
    if ids is not None:
        content["ids"] = ids
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()
