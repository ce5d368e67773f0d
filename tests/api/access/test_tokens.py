"""Tokens over HTTP: made, listed, changed, rotated, revoked."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import httpx
import pytest
from support import Served, client

Make = Callable[..., dict[str, Any]]


@pytest.fixture
def make(served: Served, request: pytest.FixtureRequest) -> Make:
    """Make a token; named after the test unless told otherwise."""

    def post(**body: Any) -> dict[str, Any]:
        given = {"name": request.node.name[:64], "scopes": ["models:read"], **body}
        answer = served.http.post("/v1/tokens", json=given)
        assert answer.status_code == 201, answer.text
        return answer.json()

    return post


def test_the_secret_is_told_once_and_works(served: Served, make: Make) -> None:
    made = make(limits={"uploads": 2})
    with client(served.url, token=made["secret"]) as app:
        assert app.get("/v1/models").status_code == 200
    shown = served.http.get(f"/v1/tokens/{made['id']}").json()
    assert {**shown, "secret": made["secret"]} == {**made, "last_used_at": shown["last_used_at"]}
    assert made["secret"] not in served.http.get("/v1/tokens", params={"limit": 1000}).text
    assert made["secret"] not in served.said()
    assert shown["limits"] == {
        **dict.fromkeys(("connections", "registrations", "predictions_per_second"), None),
        "uploads": 2,
        "bytes_per_day": None,
    }


@pytest.mark.parametrize("name", ["a\x1b[2Kb", "a\nb", "a\u202eb", "a\x9bb", "a\x7f"])
def test_a_name_has_no_control_characters(served: Served, make: Make, name: str) -> None:
    made = make()
    body = {"name": name, "scopes": ["predict"]}
    for answer in (
        served.http.post("/v1/tokens", json=body),
        served.http.patch(f"/v1/tokens/{made['id']}", json={"name": name}),
    ):
        assert answer.status_code == 422
        (problem,) = answer.json()["errors"]
        assert (problem["pointer"], problem["detail"][:12]) == ("/name", "leave out U+")


def test_an_answer_with_a_secret_is_not_to_be_cached(served: Served, make: Make) -> None:
    made = make()
    rotated = served.http.post(f"/v1/tokens/{made['id']}/rotate")
    assert rotated.headers["cache-control"] == "no-store"
    assert rotated.json()["secret"] != made["secret"]


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"scopes": []}, "/scopes"),
        ({"scopes": ["root"]}, "/scopes/0"),
        ({"models": []}, "/models"),
        ({"scopes": ["backup"], "models": ["pets"]}, "/models"),
        ({"expires_at": "2001-01-01T00:00:00Z"}, "/expires_at"),
        ({"expires_at": "tomorrow"}, "/expires_at"),
        ({"expires_at": 4_000_000_000}, "/expires_at"),
        ({"expires_at": "9999-12-31T23:59:59-14:00"}, "/expires_at"),
        ({"limits": {"uploads": 0}}, "/limits/uploads"),
        ({"limit": {}}, "/limit"),
        ({"name": " "}, "/name"),
    ],
)
def test_a_wrong_request_is_told_what_is_wrong(
    served: Served, body: dict[str, Any], pointer: str
) -> None:
    given = {"name": "wrong", "scopes": ["train"], **body}
    answer = served.http.post("/v1/tokens", json=given)
    assert answer.status_code == 422, answer.text
    assert [error["pointer"] for error in answer.json()["errors"]] == [pointer]


def test_two_valid_tokens_cannot_have_one_name(served: Served, make: Make) -> None:
    first = make(name="door")
    again = served.http.post("/v1/tokens", json={"name": "door", "scopes": ["train"]})
    assert (again.status_code, again.json()["code"]) == (409, "already_exists")
    served.http.delete(f"/v1/tokens/{first['id']}").raise_for_status()
    assert make(name="door")["id"] > first["id"]


def test_a_revoked_token_stays_listed_and_stays_revoked(served: Served, make: Make) -> None:
    made = make()
    path = f"/v1/tokens/{made['id']}"
    assert served.http.delete(path).status_code == 204
    assert served.http.delete(path).status_code == 204
    assert served.http.get(path).json()["revoked_at"] is not None
    for answer in (served.http.post(f"{path}/rotate"), served.http.patch(path, json={"name": "x"})):
        assert (answer.status_code, answer.json()["code"]) == (409, "state_conflict")


def test_a_change_merges_limits_and_null_removes(served: Served, make: Make) -> None:
    end = (datetime.now(timezone.utc) + timedelta(days=1)).isoformat()
    path = f"/v1/tokens/{make(limits={'uploads': 2, 'connections': 3}, expires_at=end)['id']}"
    changed = served.http.patch(path, json={"limits": {"uploads": None, "bytes_per_day": 9}}).json()
    assert (changed["limits"]["uploads"], changed["limits"]["connections"]) == (None, 3)
    assert (changed["limits"]["bytes_per_day"], changed["expires_at"] is None) == (9, False)
    assert served.http.patch(path, json={"expires_at": None}).json()["expires_at"] is None
    assert served.http.patch(path, json={"scopes": ["backup"]}).status_code == 422


def test_who_may_make_tokens_cannot_make_stronger_ones(served: Served, make: Make) -> None:
    strong = make(name="strong", scopes=["backup"])
    helper = make(name="helper", scopes=["tokens:admin", "train"])
    with client(served.url, token=helper["secret"]) as asking:
        refused = asking.post("/v1/tokens", json={"name": "more", "scopes": ["train", "backup"]})
        stolen = asking.post(f"/v1/tokens/{strong['id']}/rotate")
        made = asking.post("/v1/tokens", json={"name": "less", "scopes": ["train"]})
    for answer in (refused, stolen):
        assert (answer.status_code, answer.json()["code"]) == (403, "insufficient_scope")
    assert made.status_code == 201


def test_tokens_and_their_end_survive_a_restart(serve: Callable[..., Served]) -> None:
    first = serve()
    made = [
        first.http.post("/v1/tokens", json={"name": name, "scopes": ["models:read"]}).json()
        for name in ("kept", "revoked")
    ]
    first.http.delete(f"/v1/tokens/{made[1]['id']}")
    first.stop()
    second = serve()

    def ask(secret: str) -> httpx.Response:
        with client(second.url, token=secret) as app:
            return app.get("/v1/models")

    assert [ask(each["secret"]).status_code for each in made] == [200, 401]


def test_a_token_lifts_neither_its_own_end_and_limits_nor_another_s(
    served: Served, make: Make
) -> None:
    ends = datetime.now(timezone.utc) + timedelta(hours=1)
    own = make(
        scopes=["tokens:admin"],
        limits={"uploads": 1, "connections": 8},
        expires_at=ends.isoformat(),
    )
    strong = make(name="stronger", scopes=["tokens:admin", "backup"], expires_at=ends.isoformat())
    later = (ends + timedelta(days=1)).isoformat()
    changes: list[dict[str, Any]] = [
        {"expires_at": None},
        {"expires_at": later},
        {"limits": {"uploads": None}},
        {"limits": {"connections": None}},
    ]
    with client(served.url, token=own["secret"]) as asking:
        for each in (own, strong):
            for change in changes[: 4 if each is own else 2]:
                answer = asking.patch(f"/v1/tokens/{each['id']}", json=change)
                assert (answer.status_code, answer.json()["code"]) == (403, "insufficient_scope")
        for more in ({}, {"expires_at": ends.isoformat()}, {"limits": own["limits"]}):
            body = {"name": "more", "scopes": ["tokens:admin"], **more}
            assert asking.post("/v1/tokens", json=body).status_code == 403
        sooner = (ends - timedelta(minutes=30)).isoformat()
        for each in (strong, own):
            answer = asking.patch(f"/v1/tokens/{each['id']}", json={"expires_at": sooner})
            assert answer.status_code == 200, answer.text
