"""The Open Inference Protocol v2, so that existing clients work."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from importlib.metadata import version as installed_version
from typing import Annotated, Any

from fastapi import APIRouter, Header, Request
from starlette.responses import JSONResponse, Response

from api import threads
from api.access.scopes import ScopedRoute, needs
from api.bodies.uploads import require_plain
from api.dependencies import Id, TheDaemon
from api.errors import STATUS
from api.inference import near, not_loaded, read_body
from api.openapi import BINARY, DETAILS, GUARDED, PREDICTION_FAULTS, body
from service.access.principal import Scope
from service.prediction.open_inference import describe, read_request, write_answer

HeaderLength = Annotated[
    int | None,
    Header(alias="Inference-Header-Content-Length", ge=0, description="JSON; tensors follow it."),
]
MOST_VERSIONS = 1000
PLATFORM = "onnxruntime_onnx"
TENSORS = body(
    {
        "application/json": {
            "schema": {"type": "object", "required": ["inputs"]},
            "example": {
                "inputs": [{"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [0.1, 0.2]}]
            },
        },
        "application/octet-stream": BINARY,
    }
)
ANSWER: dict[int | str, dict[str, Any]] = {
    200: {"content": {"application/json": {}, "application/octet-stream": {}}}
}


def failures(*codes: str) -> dict[int | str, dict[str, Any]]:
    """The error responses of a route, in the protocol's form."""
    by_status: dict[int | str, dict[str, Any]] = {}
    for code in (
        "unauthorized",
        "insufficient_scope",
        "quota_exceeded",
        "invalid_input",
        *codes,
        *GUARDED,
    ):
        content = by_status.setdefault(
            STATUS[code],
            {
                "description": HTTPStatus(STATUS[code]).phrase,
                "content": {"application/json": {"examples": {}}},
            },
        )["content"]["application/json"]
        example = {"error": DETAILS.get(code, HTTPStatus(STATUS[code]).phrase)}
        content["examples"][code] = {"value": example}
    return by_status


class InferenceRoute(ScopedRoute):
    """Errors in the protocol's form."""

    answers = staticmethod(failures)


router = APIRouter(prefix="/v2", tags=["open inference protocol v2"], route_class=InferenceRoute)


@router.get("", summary="Server metadata")
@needs(Scope.PREDICT)
async def server_metadata() -> JSONResponse:
    """Name, version and extensions."""
    extensions = ["binary_tensor_data"]
    server = {"name": "honed", "version": installed_version("honed"), "extensions": extensions}
    return JSONResponse(server)


@router.get("/health/live", summary="Server live")
@needs(Scope.PREDICT)
async def server_live() -> JSONResponse:
    """The process answers."""
    return JSONResponse({"live": True})


@router.get("/health/ready", summary="Server ready")
@needs(Scope.PREDICT, "not_ready")
async def server_ready(_: TheDaemon) -> JSONResponse:
    """The store is open and the scheduler runs."""
    return JSONResponse({"ready": True})


@router.get("/models/{name}", summary="Model metadata")
@needs(Scope.PREDICT)
async def model_metadata(name: str, daemon: TheDaemon) -> JSONResponse:
    """Tensors of the model, and the numbers of its versions."""
    latest = await daemon.latest.get(name)
    model = latest.model
    rows = await asyncio.to_thread(daemon.store.versions.list, model.id, MOST_VERSIONS)
    versions = [str(row.version) for row in rows]
    described = {"versions": versions, "platform": PLATFORM, **describe(model, latest.version)}
    return JSONResponse({"name": name, **described})


@router.get("/models/{name}/versions/{number}", summary="Version metadata")
@needs(Scope.PREDICT)
async def version_metadata(name: str, number: Id, daemon: TheDaemon) -> JSONResponse:
    """Tensors of the model."""
    model = (await daemon.latest.get(name)).model
    version = await asyncio.to_thread(daemon.store.versions.get, model.id, number)
    described = {"versions": [str(number)], "platform": PLATFORM, **describe(model, version)}
    return JSONResponse({"name": name, **described})


@router.get("/models/{name}/ready", summary="Model ready")
@needs(Scope.PREDICT)
async def model_ready(name: str, daemon: TheDaemon) -> JSONResponse:
    """It is registered; its session is loaded by the first request."""
    await daemon.latest.get(name)
    return JSONResponse({"name": name, "ready": True})


@router.get("/models/{name}/versions/{number}/ready", summary="Version ready")
@needs(Scope.PREDICT)
async def version_ready(name: str, number: Id, daemon: TheDaemon) -> JSONResponse:
    """It exists; its session is loaded by the first request."""
    model = (await daemon.latest.get(name)).model
    await asyncio.to_thread(daemon.store.versions.get, model.id, number)
    return JSONResponse({"name": name, "ready": True})


@router.post(
    "/models/{name}/infer",
    summary="Infer",
    response_class=Response,
    responses=ANSWER,
    openapi_extra=TENSORS,
)
@needs(Scope.PREDICT, *PREDICTION_FAULTS, counted="predictions", audited="skip")
async def infer(
    name: str, request: Request, daemon: TheDaemon, header_length: HeaderLength = None
) -> Response:
    """Uses the promoted version. Tensors as JSON or binary, both ways."""
    return await _infer(name, request, daemon, header_length, number=None)


@router.post(
    "/models/{name}/versions/{number}/infer",
    summary="Infer with a version",
    response_class=Response,
    responses=ANSWER,
    openapi_extra=TENSORS,
)
@needs(Scope.PREDICT, *PREDICTION_FAULTS, counted="predictions", audited="skip")
async def infer_with_version(
    name: str,
    number: Id,
    request: Request,
    daemon: TheDaemon,
    header_length: HeaderLength = None,
) -> Response:
    """Uses the version with this number, promoted or not."""
    return await _infer(name, request, daemon, header_length, number=number)


async def _infer(
    name: str,
    request: Request,
    daemon: TheDaemon,
    header_length: int | None,
    *,
    number: int | None,
) -> Response:
    require_plain(request)
    model = (await daemon.latest.get(name)).model
    content = await read_body(request, max_bytes=daemon.settings.prediction_body_bytes)
    text_bytes = len(content) if header_length is None else header_length
    async with threads.reading(request, text_bytes):
        asked = await near(len(content), read_request, model, content, header_bytes=header_length)
    if number is None:
        prediction = await daemon.predictor.predict(name, asked.inputs)
        headers = not_loaded(prediction.serving)
        number, outputs = prediction.serving.version.version, prediction.outputs
    else:
        version = await asyncio.to_thread(daemon.store.versions.get, model.id, number)
        headers, outputs = {}, await daemon.predictor.predict_with(version, asked.inputs, of=model)
    size = sum(output.nbytes for output in outputs.values())
    parts, json_bytes = await near(
        8 * size, write_answer, asked, outputs, model=name, version=number
    )
    if json_bytes is None:
        return Response(parts[0], media_type="application/json", headers=headers)
    headers["Inference-Header-Content-Length"] = str(json_bytes)
    return Response(b"".join(parts), media_type="application/octet-stream", headers=headers)
