"""Errors as RFC 9457 problem documents: the one place that maps codes to HTTP status."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from itertools import islice
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.routing import Match, Mount
from starlette.types import Receive, Scope, Send

from api.access.auditing import note_refusal
from api.hints import meant
from api.protocol import METHODS, READS
from service.errors import InsufficientScope, QuotaExceeded
from service.logs import event
from storage.disk.durable import fault_of, is_of_disk
from storage.errors import HoneError, Problem, ReadOnlyDisk, pointer

logger = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
TYPE_BASE = "urn:honed:error:"
"""The prefix of problem types; docs/errors.md describes each."""

STATUS: dict[str, int] = {
    "already_exists": 409,
    "busy": 503,
    "child_died": 500,
    "damaged": 500,
    "foreign_origin": 403,
    "graph_refused": 422,
    "in_use": 409,
    "insufficient_scope": 403,
    "internal": 500,
    "invalid_input": 422,
    "method_not_allowed": 405,
    "model_not_loadable": 503,
    "no_samples": 409,
    "no_session": 403,
    "not_consented": 409,
    "not_found": 404,
    "not_ready": 503,
    "prediction_failed": 422,
    "prediction_timeout": 504,
    "preparation_failed": 422,
    "privacy_budget_spent": 409,
    "quota_exceeded": 429,
    "range_not_satisfiable": 416,
    "state_conflict": 409,
    "storage_broken": 500,
    "storage_full": 507,
    "too_few_samples": 409,
    "too_large": 413,
    "unauthorized": 401,
    "unsupported_media_type": 415,
    "variant_not_ready": 503,
    "variant_refused": 409,
    "wrong_host": 421,
}
MOST_LISTED, MOST_OF_FIELDS, MOST_CHARACTERS = 1000, 100, 2000
"""Errors of an answer, of them those of a body's fields, and the length of each text."""
NO_OBJECT = frozenset({"dataclass_type", "dict_type", "model_attributes_type", "model_type"})
"""pydantic's errors whose texts name Python's types."""
OBJECT = "Input should be a JSON object"
OF_STATUS = {404: "not_found", 405: "method_not_allowed", 416: "range_not_satisfiable"}


def problem(
    code: str,
    detail: str,
    *,
    errors: Iterable[Problem] = (),
    headers: Mapping[str, str] | None = None,
) -> JSONResponse:
    """The answer for an error. errors: everything that is wrong, and what would be right."""
    status = STATUS[code]
    body: dict[str, Any] = {
        "type": TYPE_BASE + code,
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": _shown(detail),
        "code": code,
    }
    listed = islice(errors, MOST_LISTED)
    if told := [{"pointer": _shown(one.pointer), "detail": _shown(one.detail)} for one in listed]:
        body["errors"] = told
    return ProblemAnswer(body, status_code=status, headers=headers, media_type=MEDIA_TYPE)


def _shown(text: str) -> str:
    """Shortened, with lone surrogates escaped, which JSON can contain but UTF-8 cannot."""
    if len(text) > MOST_CHARACTERS:
        text = f"{text[:MOST_CHARACTERS]}… ({len(text)} characters)"
    return text.encode("utf-8", "backslashreplace").decode()


class ProblemAnswer(JSONResponse):
    """A problem document; below /v2 only the one field that the Open Inference Protocol has."""

    def __init__(self, body: dict[str, Any], **options: Any) -> None:
        super().__init__(body, **options)
        self._problem = body
        self._options = {name: options[name] for name in ("status_code", "headers")}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/v2" or scope["path"].startswith("/v2/"):
            faults = self._problem.get("errors", ())
            places = [": ".join(filter(None, fault.values())) for fault in faults]
            body = {"error": "; ".join([self._problem["detail"], *places])}
            await JSONResponse(body, **self._options)(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)


def install(app: FastAPI) -> None:
    """Answer every error of this app with a problem document."""
    app.add_exception_handler(HoneError, _hone_error)
    app.add_exception_handler(RequestValidationError, _validation_error)
    app.add_exception_handler(HTTPException, _http_exception)
    app.add_exception_handler(OSError, _os_error)
    app.add_exception_handler(ClientDisconnect, _client_left)
    app.add_exception_handler(Exception, _unexpected)


async def _hone_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HoneError)
    if isinstance(error, ReadOnlyDisk):
        request.app.state.daemon.store.refuse(error.detail)
    if isinstance(error, (InsufficientScope, QuotaExceeded)):
        note_refusal(request.scope, error.code)
    return refusal(error)


def refusal(error: HoneError) -> JSONResponse:
    """The answer for one of our errors."""
    return problem(error.code, error.detail, errors=error.problems, headers=_headers(error))


def _headers(error: HoneError) -> dict[str, str]:
    if isinstance(error, InsufficientScope):
        # RFC 6750, section 3.1
        lack = f'error="insufficient_scope", scope="{error.scope}"'
        return {"WWW-Authenticate": f'Bearer realm="honed", {lack}'}
    if isinstance(error, QuotaExceeded):
        return {"Retry-After": str(error.retry_after_s)}
    return {"Retry-After": "1"} if STATUS[error.code] == 503 else {}


async def _os_error(request: Request, error: Exception) -> JSONResponse:
    """A full or failing disk, too many open files, or a data folder that is gone."""
    assert isinstance(error, OSError)
    if (broken := request.app.state.daemon.storage_fault()) is not None:
        return await _hone_error(request, broken)
    if not is_of_disk(error):
        return await _unexpected(request, error)
    fault = fault_of(error, "the request failed")
    if not isinstance(fault, ReadOnlyDisk):
        logger.error("request.failed", exc_info=error, extra={"fields": {"path": request.url.path}})
    return await _hone_error(request, fault)


async def _validation_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    if isinstance(error.body, bytes):
        body_type = request.headers.get("content-type", "none")
        return problem(
            "unsupported_media_type",
            f"the Content-Type is {body_type}; set Content-Type to application/json",
        )
    field = getattr(request.scope.get("route"), "body_field", None)
    kind = field.field_info.annotation if field is not None else None
    problems = problems_of(error.errors(), error.body, kind=kind)
    return problem("invalid_input", "the request is wrong", errors=problems)


def problems_of(
    faults: Iterable[Mapping[str, Any]], body: Any, *, kind: Any, prefix: str = ""
) -> list[Problem]:
    """pydantic's errors as problems, with pointers into the body, or `/query/…`, `/path/…`.

    All errors at one place become one problem; of a union's members, the one that the value comes
    closest to tells what is wrong within it. kind: the type of the body, with whose fields a
    mistyped one is compared.
    """
    by_place: dict[str, list[str]] = {}
    for fault in islice(faults, MOST_OF_FIELDS):
        place = list(fault["loc"])
        is_lacking = fault["type"] == "missing" and place == ["body"]
        message = OBJECT if is_lacking or fault["type"] in NO_OBJECT else fault["msg"]
        is_named = place[:1] == ["body"]
        if is_named or prefix:
            place = _in_body(place[is_named:], body, missing=fault["type"] == "missing")
        details = by_place.setdefault(prefix + pointer(*place), [])
        hint = meant(kind, place) if fault["type"] == "extra_forbidden" else ""
        if message + hint not in details:
            details.append(message + hint)
    outer = {at[:end] for at in by_place for end, letter in enumerate(at) if letter == "/"}
    return [Problem(at, ", or: ".join(by_place[at])) for at in by_place if at not in outer]


def _in_body(place: list[Any], body: Any, *, missing: bool) -> list[Any]:
    """The place without the names that pydantic adds for members of a union."""
    kept = []
    for at, part in enumerate(place):
        is_there = isinstance(body, dict) and part in body
        is_there = is_there or (isinstance(body, list) and isinstance(part, int))
        if is_there:
            body = body[part]
            kept.append(part)
        elif missing and at == len(place) - 1:
            kept.append(part)
    return kept


async def _http_exception(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    if isinstance(why := error.__cause__, HoneError):  # FastAPI wraps what reading JSON raises
        return await _hone_error(request, why)
    usual = "invalid_input" if error.status_code < 500 else "internal"
    code = OF_STATUS.get(error.status_code, usual)
    allowed = _allowed(request) if error.status_code == 405 else ""
    mend = {404: "; /docs lists the routes", 405: f"; it takes {allowed}"}
    detail = f"{request.method} {request.url.path}: {error.detail}"
    headers = {"Allow": allowed} if allowed else error.headers
    return problem(code, detail + mend.get(error.status_code, ""), headers=headers)


def _allowed(request: Request) -> str:
    """Every method of the path; the router knows only those of the first matching route."""
    place = {"type": "http", "path": request.scope["path"], "root_path": ""}
    routes = [route for route in request.app.routes if not isinstance(route, Mount)]
    methods = [
        method
        for method in METHODS
        if method != "HEAD"
        if any(route.matches({**place, "method": method})[0] is Match.FULL for route in routes)
    ]
    return ", ".join(["GET", "HEAD", *methods[1:]] if "GET" in methods else methods or READS)


async def _client_left(request: Request, _: Exception) -> Response:
    """The client disconnected before its body had arrived; nobody reads the answer."""
    event(
        logger,
        logging.INFO,
        "request.abandoned",
        method=request.method,
        path=request.url.path,
    )
    return Response(status_code=400)


async def _unexpected(request: Request, error: Exception) -> JSONResponse:
    logger.error(
        "request.failed",
        exc_info=error,
        extra={"fields": {"method": request.method, "path": request.url.path}},
    )
    return problem("internal", "this is a bug in the daemon; its log has the traceback")
