"""How routes declare their errors and bodies; `api.description` turns them into OpenAPI."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from http import HTTPStatus
from typing import Any

from api.errors import MEDIA_TYPE, STATUS, TYPE_BASE

SCHEMAS = "#/components/schemas/"
BINARY: dict[str, Any] = {"schema": {"type": "string", "format": "binary"}}
"""The content of a file."""
PROBLEM = {"$ref": f"{SCHEMAS}ProblemBody"}
"""By reference: for a model FastAPI would keep a validator for every answer of every route."""
GUARDED = ("wrong_host", "foreign_origin")
"""Error codes of every route; those that need a token have four more."""
BODY_FAULTS = ("too_large", "unsupported_media_type")
"""Error codes of every route that takes a body."""
PREDICTION_FAULTS = (
    "busy",
    "child_died",
    "damaged",
    "model_not_loadable",
    "prediction_failed",
    "prediction_timeout",
)
"""Error codes of every route that runs a model."""
DETAILS = {
    "already_exists": "a model named 'digits' exists; choose another name or delete it",
    "damaged": "sample 8: its bytes are not those that were stored; it is set aside, …",
    "graph_refused": "2 nodes of the graph cannot be trained",
    "in_use": "version 3 is needed by the alias latest; move the alias first",
    "insufficient_scope": "this needs the scope train; token 3 (photos) has samples:write; …",
    "invalid_input": "1 of 2 samples is bad, so none was stored",
    "model_not_loadable": "version 4 of model 'digits' cannot be loaded",
    "no_samples": "model 'digits' has no labelled training samples",
    "no_session": "session 0 is that of services; report from a person's session",
    "not_consented": "nobody has allowed 'digits' to take part in federated training; …",
    "not_found": "there is no model named 'digits'",
    "not_ready": "the daemon is starting or stopping; ask again in a moment",
    "prediction_failed": "version 4 of model 'digits': the model cannot compute these inputs",
    "prediction_timeout": "no answer within 30 s; send fewer inputs",
    "preparation_failed": "checking the model ended the process that did it",
    "privacy_budget_spent": "'digits' has spent epsilon 7.8 of its budget of 8; …",
    "quota_exceeded": "your limit of uploads at once is 2 (uploads); wait until …",
    "range_not_satisfiable": "the file has 41733 bytes",
    "state_conflict": "job 3 is succeeded; only a paused job resumes",
    "storage_full": "the disk is full; nothing of the request was stored",
    "too_few_samples": "the update would come from 1 sample of 'digits'; …",
    "too_large": "a JSON body has at most 33554432 bytes",
    "unsupported_media_type": "the body is text/plain; set Content-Type to application/json",
    "variant_not_ready": "the int8 variant of version 3 is being made; ask again",
    "variant_refused": "refused: validation accuracy went from 0.97 (version 3) to 0.81 on 200 …",
}
KNOWN: dict[int | str, dict[str, Any]] = {
    304: {"description": "The asker has it: `If-None-Match` names its ETag."}
}
SAMPLE_FAULT = {
    "pointer": "/samples/1/inputs/image",
    "detail": 'input "image" has shape [8, 8], the model takes [1, 8, 8]',
}


def answers(*codes: str) -> dict[int | str, dict[str, Any]]:
    """The error responses of a route that needs a token; codes: the route's own."""
    return open_answers(
        "invalid_input", "unauthorized", "insufficient_scope", "quota_exceeded", *codes
    )


def open_answers(*codes: str) -> dict[int | str, dict[str, Any]]:
    """The error responses of a route that needs no token; codes: the route's own."""
    by_status: dict[int | str, tuple[str, ...]] = {}
    for code in dict.fromkeys((*codes, *GUARDED)):
        by_status[STATUS[code]] = (*by_status.get(STATUS[code], ()), code)
    return {status: _response(problem_type) for status, problem_type in by_status.items()}


def closed(required: str, **fields: Any) -> dict[str, Any]:
    """The schema of an object of these fields alone, one of which it must have."""
    return {
        "type": "object",
        "required": [required],
        "additionalProperties": False,
        "properties": fields,
    }


def body(content: Mapping[str, Any]) -> dict[str, Any]:
    """`openapi_extra` for a body that a route reads by itself; content: by media type."""
    return {"requestBody": {"required": True, "content": content}}


def form(
    part: str, schema: str, *files: str, required: Sequence[str], example: Any
) -> dict[str, Any]:
    """The content of a form: files, and a part in JSON, whose body is in `api.schemas`."""
    return {
        "schema": {
            "type": "object",
            "required": required,
            "properties": {
                part: {"$ref": f"{SCHEMAS}{schema}"},
                **dict.fromkeys(files, BINARY["schema"]),
            },
        },
        "encoding": {part: {"contentType": "application/json"}},
        "example": example,
    }


def file_answers(content: Mapping[str, Any], described: str) -> dict[int | str, dict[str, Any]]:
    """The responses of a stored file; content: by media type."""
    return {
        200: {"content": content, "description": described},
        206: {"content": content, "description": "The range asked for."},
        **KNOWN,
    }


@cache
def _response(codes: tuple[str, ...]) -> dict[str, Any]:
    """The response of one status, shared by all routes: copies would take half a MiB."""
    examples = {code: {"value": _example(code)} for code in codes}
    return {
        "description": HTTPStatus(STATUS[codes[0]]).phrase,
        "content": {MEDIA_TYPE: {"schema": PROBLEM, "examples": examples}},
    }


@cache
def _example(code: str) -> dict[str, Any]:
    status = STATUS[code]
    example: dict[str, Any] = {
        "type": TYPE_BASE + code,
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": DETAILS.get(code, HTTPStatus(status).description or code),
        "code": code,
    }
    if code == "invalid_input":
        example["errors"] = [SAMPLE_FAULT]
    return example
