"""Every route with every scope: one opens it, the others do not."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from fastapi.routing import APIRouter, iter_route_contexts
from starlette.routing import Mount
from support import client

from api.access.scopes import ScopedRoute, need_of, require_scoped
from api.security import OPEN_PATHS
from service.access.principal import SCOPES, Scope

ROUTES = """
GET /metrics models:read
GET /v1/audit tokens:admin
GET /v1/audit/export tokens:admin
GET /v1/backup backup
GET /v1/checkpoints/{checkpoint_id} models:read
PATCH /v1/checkpoints/{checkpoint_id} models:admin
DELETE /v1/checkpoints/{checkpoint_id} models:admin
GET /v1/checkpoints/{checkpoint_id}/content models:read
GET /v1/device device:policy
GET /v1/device/history device:policy
PUT /v1/device/input device:policy
GET /v1/events models:read
GET /v1/events/history models:read
GET /v1/jobs models:read
GET /v1/jobs/{job_id} models:read
POST /v1/jobs/{job_id}/cancel train
GET /v1/jobs/{job_id}/log models:read
GET /v1/jobs/{job_id}/metrics models:read
POST /v1/jobs/{job_id}/pause train
POST /v1/jobs/{job_id}/resume train
GET /v1/models models:read
POST /v1/models models:admin
POST /v1/diagnosis models:admin
GET /v1/models/{name} models:read
PATCH /v1/models/{name} models:admin
DELETE /v1/models/{name} models:admin
GET /v1/models/{name}/aliases models:read
GET /v1/models/{name}/aliases/{alias} models:read
PUT /v1/models/{name}/aliases/{alias} models:admin
DELETE /v1/models/{name}/aliases/{alias} models:admin
GET /v1/models/{name}/base models:read
PUT /v1/models/{name}/base models:admin
DELETE /v1/models/{name}/base models:admin
GET /v1/models/{name}/base-set models:read
POST /v1/models/{name}/base-set models:admin
DELETE /v1/models/{name}/base-set models:admin
GET /v1/models/{name}/classes models:read
POST /v1/models/{name}/classes models:admin
PATCH /v1/models/{name}/classes/{class_name} models:admin
DELETE /v1/models/{name}/classes/{class_name} models:admin
POST /v1/models/{name}/classes/{class_name}/merge models:admin
GET /v1/models/{name}/checkpoints models:read
GET /v1/models/{name}/drift models:read
POST /v1/models/{name}/jobs train
POST /v1/models/{name}/complete predict
POST /v1/completions predict
POST /v1/models/{name}/evaluate federate
GET /v1/models/{name}/federation models:read
GET /v1/models/{name}/parameters models:read
PUT /v1/models/{name}/parameters federate
POST /v1/models/{name}/rounds federate
GET /v1/rounds/{round_id} federate
GET /v1/rounds/{round_id}/update federate
DELETE /v1/rounds/{round_id} federate
GET /v1/models/{name}/follow models:read
PUT /v1/models/{name}/follow models:admin
DELETE /v1/models/{name}/follow models:admin
GET /v1/models/{name}/latest models:read
GET /v1/models/{name}/latest/model.onnx models:read
POST /v1/models/{name}/predict predict
GET /v1/models/{name}/reference models:read
PUT /v1/models/{name}/reference models:admin
DELETE /v1/models/{name}/reference models:admin
POST /v1/models/{name}/release models:admin
POST /v1/models/{name}/rollback models:admin
GET /v1/models/{name}/samples samples:read
POST /v1/models/{name}/samples samples:write
PATCH /v1/models/{name}/samples samples:write
DELETE /v1/models/{name}/samples models:admin
GET /v1/models/{name}/samples/archive samples:read
POST /v1/models/{name}/samples/archive samples:write
GET /v1/models/{name}/samples/duplicates samples:read
GET /v1/models/{name}/samples/stats samples:read
GET /v1/models/{name}/samples/{sample_id} samples:read
PATCH /v1/models/{name}/samples/{sample_id} samples:write
DELETE /v1/models/{name}/samples/{sample_id} models:admin
GET /v1/models/{name}/samples/{sample_id}/content samples:read
GET /v1/models/{name}/samples/{sample_id}/mask samples:read
GET /v1/models/{name}/samples/{sample_id}/thumbnail samples:read
GET /v1/models/{name}/tokenizer.json models:read
GET /v1/models/{name}/triggers models:read
POST /v1/models/{name}/triggers train
GET /v1/models/{name}/triggers/{trigger_id} models:read
PATCH /v1/models/{name}/triggers/{trigger_id} train
DELETE /v1/models/{name}/triggers/{trigger_id} train
GET /v1/models/{name}/versions models:read
GET /v1/models/{name}/versions/{number} models:read
GET /v1/models/{name}/versions/{number}/comparison/{other} models:read
GET /v1/models/{name}/versions/{number}/model.onnx models:read
GET /v1/models/{name}/versions/{number}/samples samples:read
POST /v1/pause device:policy
GET /v1/policy device:policy
POST /v1/policy/check device:policy
PUT /v1/policy device:policy
DELETE /v1/policy device:policy
POST /v1/resume device:policy
POST /v1/sign-in/codes tokens:admin
POST /v1/snooze device:policy
DELETE /v1/snooze device:policy
GET /v1/verification backup
POST /v1/verification backup
GET /v1/system device:policy
GET /v1/tokens tokens:admin
POST /v1/tokens tokens:admin
GET /v1/tokens/{token_id} tokens:admin
PATCH /v1/tokens/{token_id} tokens:admin
DELETE /v1/tokens/{token_id} tokens:admin
POST /v1/tokens/{token_id}/rotate tokens:admin
GET /v2 predict
GET /v2/health/live predict
GET /v2/health/ready predict
GET /v2/models/{name} predict
POST /v2/models/{name}/infer predict
GET /v2/models/{name}/ready predict
GET /v2/models/{name}/versions/{number} predict
POST /v2/models/{name}/versions/{number}/infer predict
GET /v2/models/{name}/versions/{number}/ready predict
"""
TABLE = [tuple(line.split()) for line in ROUTES.strip().splitlines()]
IDS = {"checkpoint_id", "job_id", "round_id", "sample_id", "trigger_id", "number", "token_id"}


def ask(asking: httpx.Client, method: str, path: str) -> tuple[int, dict[str, Any], httpx.Headers]:
    """Status, problem and headers of a request for things that there are not."""
    place = re.sub(r"{(\w+)}", lambda found: "999" if found[1] in IDS else "nothing", path)
    with asking.stream(method, place) as answer:
        if not answer.is_error:
            return answer.status_code, {}, answer.headers
        answer.read()
        kind = answer.headers["content-type"]
        return answer.status_code, answer.json() if "json" in kind else {}, answer.headers


def test_the_table_names_every_operation_and_its_declared_scope(
    description: dict[str, Any],
) -> None:
    told = {
        (method.upper(), path, operation["security"][0]["token"][0])
        for path, operations in description["paths"].items()
        if path not in OPEN_PATHS
        for method, operation in operations.items()
    }
    assert told == set(TABLE)


def test_every_scope_opens_its_routes_and_no_other(app: Callable[..., httpx.Client]) -> None:
    scopes = [each.value for each in Scope]
    with_it = {scope: app(scope) for scope in scopes}
    with_all_others = {scope: app(*(set(scopes) - {scope})) for scope in scopes}
    for method, path, needed in TABLE:
        status, problem, _ = ask(with_it[needed], method, path)
        assert status != 403, (method, path, problem)
        status, problem, headers = ask(with_all_others[needed], method, path)
        assert status == 403, (method, path, problem)
        challenge = headers["www-authenticate"]
        assert f'error="insufficient_scope", scope="{needed}"' in challenge
        assert needed in problem.get("detail", problem.get("error"))


def test_the_admin_token_opens_every_route(admin: httpx.Client) -> None:
    assert not [
        (method, path) for method, path, _ in TABLE if ask(admin, method, path)[0] in (401, 403)
    ]


def test_a_token_of_every_scope_bound_to_a_model_opens_no_other(
    app: Callable[..., httpx.Client],
) -> None:
    bindable = {each.value for each in Scope} - {"device:policy", "backup", "tokens:admin"}
    asking = app(*bindable, models=["something"])
    about_models = [(method, path) for method, path, _ in TABLE if "{name}" in path]
    assert len(about_models) > 40
    for method, path in about_models:
        status, problem, _ = ask(asking, method, path)
        assert status == 403, (method, path)
        assert "bound to something" in problem.get("detail", problem.get("error"))


def test_no_scope_at_all_opens_nothing(inside: Any) -> None:
    for method, path, _ in TABLE:
        with client(inside.url) as nobody:
            assert ask(nobody, method, path)[0] == 401, (method, path)


def test_every_route_of_the_app_checks_scopes_or_is_open(inside: Any) -> None:
    unscoped = [
        context.path
        for context in iter_route_contexts(inside.app.routes)
        if not isinstance(context.original_route, ScopedRoute)
    ]
    assert sorted(unscoped) == ["/docs", "/docs/assets", "/openapi.json"]
    undeclared = {
        context.path
        for context in iter_route_contexts(inside.app.routes)
        if not isinstance(context.original_route, Mount) and need_of(context.original_route) is None
    }
    assert {path for path in undeclared if not path.startswith("/dashboard/")} == OPEN_PATHS


def test_a_route_that_declares_no_scope_refuses_the_admin_too(
    inside: Any, admin: httpx.Client
) -> None:
    router = APIRouter(route_class=ScopedRoute)

    @router.get("/v1/forgotten")
    async def forgotten() -> str:
        return "something"

    application: FastAPI = inside.app
    application.include_router(require_scoped(router))
    answer = admin.get("/v1/forgotten")
    assert (answer.status_code, answer.json()["code"]) == (403, "insufficient_scope")
    assert "declares no scope" in answer.json()["detail"]


def test_a_router_whose_routes_check_nothing_is_not_taken() -> None:
    router = APIRouter()

    @router.get("/v1/unchecked")
    async def unchecked() -> str:
        return "something"

    with pytest.raises(TypeError, match="checks no scope"):
        require_scoped(router)


def test_a_method_that_a_path_has_not_is_405_whatever_the_scopes(
    app: Callable[..., httpx.Client],
) -> None:
    assert app("predict").put("/v1/models/x/samples").status_code == 405
    assert app("train").get("/v1/nothing").status_code == 404


def test_the_documentation_tells_every_scope() -> None:
    page = (Path(__file__).parents[3] / "docs/tokens.md").read_text("utf-8")
    told = dict(re.findall(r"^\| `([a-z:]+)` \| (.+) \|$", page.split("## ")[1], re.M))
    assert told == {scope.value: what for scope, what in SCOPES.items()}
