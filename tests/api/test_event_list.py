"""`GET /v1/events/history`: what has happened, by type and model, page by page."""

from __future__ import annotations

from typing import Any

import pytest
from support import Served, blobs, client, mlp


@pytest.fixture(scope="module")
def told(served: Served) -> Served:
    for name in ("heard", "unheard"):
        served.register(name, mlp(4, 3))
        served.upload(name, **blobs(20, 4, 3))
    return served


def listed(asking: Any, **query: Any) -> list[tuple[str, str]]:
    items = asking.get("/v1/events/history", params=query).json()["items"]
    return [(item["type"], item["model"]) for item in items]


def test_events_are_listed_newest_first_by_type_and_model(told: Served) -> None:
    both = [("samples.added", "heard"), ("model.created", "heard")]
    assert listed(told.http, model="heard") == both
    assert listed(told.http, model=["heard", "unheard"], type="samples.") == [
        ("samples.added", "unheard"),
        ("samples.added", "heard"),
    ]
    first = told.http.get("/v1/events/history", params={"model": "heard", "limit": 1}).json()
    assert first["items"][0]["data"]["accepted"] == 20
    rest = {"model": "heard", "cursor": first["next"]}
    assert listed(told.http, **rest) == both[1:]


@pytest.mark.parametrize("path", ["/v1/events/history", "/v1/events"])
@pytest.mark.parametrize("name", ["model", "type"])
def test_a_list_is_filtered_by_a_hundred_values_and_no_more(
    told: Served, path: str, name: str
) -> None:
    values = [str(number) for number in range(1001)]
    answer = told.http.get(path, params={name: values})
    assert answer.status_code == 422, answer.text
    assert [error["pointer"] for error in answer.json()["errors"]] == [f"/query/{name}"]
    if path.endswith("history"):
        assert listed(told.http, **{name: values[:100]}) == []


def test_a_token_that_is_bound_to_a_model_sees_its_events_alone(told: Served) -> None:
    asked = {"name": "listener", "scopes": ["models:read"], "models": ["heard"]}
    secret = told.http.post("/v1/tokens", json=asked).json()["secret"]
    with client(told.url, token=secret) as asking:
        assert {model for _, model in listed(asking)} == {"heard"}
        assert asking.get("/v1/events/history?model=unheard").status_code == 403
