"""What schemathesis is told of our API: bodies that are no JSON, and what every answer has to be.

HONE_OPENAPI_BODIES: a folder of good bodies, each named by what it is. HONE_OPENAPI_SCOPE: the one
scope of the token that asks, if it is not the admin's. HONE_OPENAPI_TALLY: a file for the answers'
counts, by operation and status.
"""

from __future__ import annotations

import atexit
import json
import os
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import requests
import schemathesis
from hostile import RANDOM, damaged, flip
from schemathesis import (
    Case,
    CheckContext,
    GenerationMode,
    HookContext,
    Response,
    SerializationContext,
)
from schemathesis.core.failures import AcceptedNegativeData, Failure

from api.errors import MEDIA_TYPE, STATUS

BODIES = {
    path.name: path.read_bytes() for path in Path(os.environ["HONE_OPENAPI_BODIES"]).iterdir()
}
SCOPE = os.environ["HONE_OPENAPI_SCOPE"]
MEDIA_TYPES = {
    "application/x-npz": "samples.npz",
    "application/zip": "archive.zip",
    "application/safetensors": "parameters.safetensors",
    "application/x-safetensors": "parameters.safetensors",
    "image/png": "photo.png",
    "image/jpeg": "photo.jpeg",
    "image/webp": "photo.webp",
    "audio/wav": "tone.wav",
    "audio/flac": "tone.flac",
}
PASSING = frozenset({"busy", "variant_not_ready"})
"""Errors with a status of 5xx that say when to ask again."""
MODELS = frozenset({"still", "taking", "pictures", "federated", "doomed"})
OWN = {
    "delete_model": "doomed",
    "delete_samples": "doomed",
    "import_samples": "taking",
    "sample_thumbnail": "pictures",
}
"""Operations that only one of them is for, or that leave nothing for the others."""
PARTS = {"model": "model.onnx", "parameters": "parameters.safetensors", "file": "photo.png"}
"""Of forms."""
TOKENS = 5
"""Of which each may be revoked and rotated. The next one may be the one that asks."""
MOST = {"epochs": 2, "max_steps": 2, "max_seconds": 1, "wait": 1}
"""Of what else keeps the processor busy, or an answer waiting, for hours."""

FILLED: set[str] = set()
"""Cases whose forms hold our files."""
ANSWERS: Counter[tuple[str, int]] = Counter()


def _either(r: Random, content: bytes) -> bytes:
    """The body as it is, or damaged."""
    return content if flip(r) else damaged(r, content)


def _register_bodies() -> None:
    for media_type, name in MEDIA_TYPES.items():
        of_type = RANDOM.map(lambda r, body=BODIES[name]: _either(r, body))
        schemathesis.openapi.media_type(media_type, of_type)
    any_of_them = RANDOM.map(lambda r: _either(r, r.choice(list(BODIES.values()))))
    schemathesis.openapi.media_type("application/octet-stream", any_of_them)
    schemathesis.openapi.format("binary", any_of_them)


_register_bodies()


@schemathesis.serializer("application/jsonl")
def lines(_: SerializationContext, value: Any) -> bytes:
    """Text, as it is."""
    return str(value).encode(errors="surrogatepass")


@schemathesis.hook
def before_call(context: HookContext, case: Case, kwargs: dict[str, Any]) -> None:
    """Keep the models that the other operations need, and the machine free."""
    asked = case.operation.definition.raw
    if case.path_parameters.get("name") in MODELS:
        case.path_parameters["name"] = _model_for(asked, case.path_parameters)
    if str(case.path_parameters.get("token_id")) == str(TOKENS + 1):
        case.path_parameters["token_id"] = TOKENS
    is_right = case.meta is not None and case.meta.generation.mode == GenerationMode.POSITIVE
    if is_right and case.media_type == "multipart/form-data" and isinstance(case.body, dict):
        _fill_form(asked["operationId"], case.body)
        FILLED.add(case.id)
    _bound(case.query)
    _bound(case.body)
    if asked["operationId"] == "ask_for_job" and isinstance(case.body, dict):
        case.body.setdefault("max_seconds", 1)


def _fill_form(name: str, form: dict[str, Any]) -> None:
    """Put files into it that are what its parts are called; half of the registrations are good."""
    r = Random(repr(form))
    form |= {part: _either(r, BODIES[PARTS[part]]) for part in PARTS if part in form}
    if name == "register" and flip(r):
        form.clear()
        spec = {"name": f"m{r.getrandbits(30)}", "loss": "cross_entropy"}
        form |= {"spec": spec, "model": BODIES[PARTS["model"]]}


@schemathesis.hook
def filter_failure(context: HookContext, failure: Failure, case: Case, response: Response) -> bool:
    """Keep it, unless it is that our files were taken, whose bytes fit no schema, or samples of
    which `on_error=skip` left some out and tells so."""
    if not isinstance(failure, AcceptedNegativeData):
        return True
    skips = (case.query or {}).get("on_error") == "skip"
    return case.id not in FILLED and not (skips and json.loads(response.content)["rejected"])


def _model_for(operation: dict[str, Any], parameters: dict[str, Any]) -> str:
    """The model that has what the operation is about, or that may be lost."""
    if operation["security"] == [{"token": ["federate"]}]:
        return "federated"
    chosen: str = parameters["name"] if len(parameters) == 1 else "taking"
    return OWN.get(operation["operationId"], chosen)


def _bound(value: Any) -> None:
    if isinstance(value, dict):
        for name, most in MOST.items():
            if isinstance(value.get(name), (int, float)) and value[name] > most:
                value[name] = most
    for part in value.values() if isinstance(value, dict) else ():
        _bound(part)


@schemathesis.hook
def after_call(context: HookContext, case: Case, response: Response) -> None:
    """Count it, and register the model anew that is gone."""
    ANSWERS[case.operation.label, response.status_code] += 1
    if case.method == "DELETE" and response.status_code == 204:
        url = response.request.url or ""
        if url.endswith("/v1/models/doomed"):
            requests.post(
                url.removesuffix("/doomed"),
                data={"spec": json.dumps({"name": "doomed", "loss": "cross_entropy"})},
                files={"model": BODIES["model.onnx"]},
                headers={"Authorization": response.request.headers["Authorization"]},
                timeout=60,
            ).raise_for_status()


@schemathesis.check
def errors_are_ours(ctx: CheckContext, response: Response, case: Case) -> None:
    """An error is a problem document with a code of the catalogue, and no fault of the daemon."""
    status = response.status_code
    if status < 400 or case.method == "HEAD":
        return
    (media_type,) = response.headers["content-type"]
    body = json.loads(response.content)
    if case.path.startswith("/v2"):
        assert (media_type, list(body)) == ("application/json", ["error"])
        assert status < 500 or status == 503, body
    else:
        assert media_type == MEDIA_TYPE
        assert (body["status"], STATUS.get(body["code"])) == (status, status)
        assert status < 500 or body["code"] in PASSING, body


@schemathesis.check
def scopes_hold(ctx: CheckContext, response: Response, case: Case) -> None:
    """A token of one scope gets nothing from an operation of another."""
    needed = [each.get("token") for each in case.operation.definition.raw.get("security", [])]
    if SCOPE and needed and needed != [[SCOPE]]:
        # An encoded slash leads to another operation.
        assert response.status_code >= 400 or "%2F" in (response.request.url or "")


@atexit.register
def _tell() -> None:
    found: dict[str, dict[int, int]] = {}
    for (label, status), count in sorted(ANSWERS.items()):
        found.setdefault(label, {})[status] = count
    Path(os.environ["HONE_OPENAPI_TALLY"]).write_text(json.dumps(found))
