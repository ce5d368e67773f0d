"""Signing in over HTTP: who may ask for a code, and what it is worth."""

from __future__ import annotations

from collections.abc import Callable

import httpx
from support import Served, client


def test_a_code_becomes_a_token_once(served: Served) -> None:
    made = served.http.post("/v1/sign-in/codes")
    assert made.status_code == 201
    assert made.headers["cache-control"] == "no-store"
    code = {"code": made.json()["code"]}

    given = served.tokenless.post("/v1/sign-in", json=code)
    again = served.tokenless.post("/v1/sign-in", json=code)

    assert (given.status_code, again.status_code) == (201, 401)
    assert again.json()["code"] == "unauthorized"
    with client(served.url, token=given.json()["secret"]) as asking:
        assert asking.get("/v1/models").status_code == 200
        assert asking.get("/v1/device").status_code == 200
    action = served.http.get("/v1/audit", params={"action": "sign_in"}).json()["items"]
    assert [each["who"] for each in action] == ["admin"]
    assert code["code"] not in str(action)


def test_a_foreign_page_cannot_sign_in(served: Served) -> None:
    code = {"code": served.http.post("/v1/sign-in/codes").json()["code"]}
    headers = {"Origin": "http://evil.example"}
    assert served.tokenless.post("/v1/sign-in", json=code, headers=headers).status_code == 403


def test_an_app_without_the_scope_gets_no_code(app: Callable[..., httpx.Client]) -> None:
    answer = app("models:read").post("/v1/sign-in/codes")
    assert answer.status_code == 403
