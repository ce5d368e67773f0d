"""Signing in over HTTP: who may ask for a code, and what it is worth."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone

import httpx
import pytest
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


@pytest.mark.parametrize("end", ["DELETE", "PATCH"])
def test_a_code_and_a_session_end_with_the_token_that_made_them(served: Served, end: str) -> None:
    body = {"name": f"signs in: {end}", "scopes": ["tokens:admin", "models:read"]}
    made = served.http.post("/v1/tokens", json=body).raise_for_status().json()
    with client(served.url, token=made["secret"]) as asking:
        codes = [asking.post("/v1/sign-in/codes").json()["code"] for _ in range(2)]
    session = served.tokenless.post("/v1/sign-in", json={"code": codes[0]}).json()
    sooner = (datetime.now(timezone.utc) + timedelta(hours=1)).isoformat()
    changed = {"json": {"expires_at": sooner}} if end == "PATCH" else {}
    served.http.request(end, f"/v1/tokens/{made['id']}", **changed).raise_for_status()

    late = served.tokenless.post("/v1/sign-in", json={"code": codes[1]})

    assert (late.status_code, late.json()["code"]) == (401, "unauthorized")
    with client(served.url, token=session["secret"]) as console:
        assert console.get("/v1/models").status_code == 401


def test_a_foreign_page_cannot_sign_in(served: Served) -> None:
    code = {"code": served.http.post("/v1/sign-in/codes").json()["code"]}
    headers = {"Origin": "http://evil.example"}
    assert served.tokenless.post("/v1/sign-in", json=code, headers=headers).status_code == 403


def test_an_app_without_the_scope_gets_no_code(app: Callable[..., httpx.Client]) -> None:
    answer = app("models:read").post("/v1/sign-in/codes")
    assert answer.status_code == 403
