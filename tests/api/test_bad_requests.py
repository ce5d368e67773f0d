"""Bodies that are wrong in ways JSON allows: each gets one plain answer, and stores nothing."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from support import Served, mlp

HALF = "\\ud800"
"""JSON's escape for half of a surrogate pair: Python reads it, UTF-8 cannot hold it."""


@pytest.fixture(scope="module")
def model(served: Served) -> str:
    served.register("asked", mlp(3, 4, 2))
    return "asked"


def send(served: Served, method: str, path: str, body: str, kind: str) -> httpx.Response:
    return served.http.request(method, path, content=body, headers={"Content-Type": kind})


def pointers(answer: httpx.Response) -> dict[str, str]:
    assert answer.status_code == 422, answer.text
    return {fault["pointer"]: fault["detail"] for fault in answer.json()["errors"]}


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/v1/models/asked/jobs", '{"epochs": 1}'),
        ("PATCH", "/v1/models/asked", '{"classes": ["a", "b"]}'),
        ("PUT", "/v1/policy", '{"nice": 3}'),
        ("POST", "/v1/snooze", '{"minutes": 3}'),
    ],
)
def test_json_under_another_name_is_refused_with_the_right_one(
    method: str, path: str, body: str, served: Served, model: str
) -> None:
    answer = send(served, method, path, body, "application/x-www-form-urlencoded")

    assert answer.status_code == 415
    assert answer.json()["code"] == "unsupported_media_type"
    assert "application/json" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"epochs": True}, "/epochs"),
        ({"epochs": "3"}, "/epochs"),
        ({"learning_rate": "0.1"}, "/learning_rate"),
        ({"ignore_policy": 1}, "/ignore_policy"),
        ({"ignore_policy": "yes"}, "/ignore_policy"),
        ({"from": "yesterday"}, "/from"),
        ({"from": True}, "/from"),
    ],
)
def test_what_only_looks_like_the_right_type_is_refused_at_its_place(
    body: dict[str, Any], pointer: str, served: Served, model: str
) -> None:
    answer = served.http.post(f"/v1/models/{model}/jobs", json=body)

    assert list(pointers(answer)) == [pointer]
    assert served.http.get("/v1/jobs", params={"model": model}).json()["items"] == []


def test_a_value_that_may_be_of_two_kinds_has_one_problem_that_names_both(served: Served) -> None:
    (detail,) = pointers(served.http.post("/v1/snooze", json={"until": "x"})).values()

    assert "morning" in detail
    assert "datetime" in detail


def test_whole_numbers_stand_for_floats(served: Served) -> None:
    assert served.http.post("/v1/snooze", json={"minutes": 1}).status_code == 200
    served.http.delete("/v1/snooze").raise_for_status()


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/v1/models/asked/samples", '{"inputs": {"x": [1, 2, 3]}, "key": "%s"}'),
        ("POST", "/v1/models/asked/samples", '{"inputs": {"%s": [1, 2, 3]}, "label": 1}'),
        ("POST", "/v1/models/asked/samples", '{"inputs": {"x": [1, 2, 3]}, "%s": 1}'),
        ("PUT", "/v1/policy", '{"blocking_processes": ["%s"]}'),
        ("PUT", "/v1/policy", '{"%s": 1}'),
        ("POST", "/v1/models/asked/jobs", '{"%s": 1}'),
        ("POST", "/v1/models/asked/predict", '{"inputs": {"%s": [[1, 2, 3]]}}'),
    ],
)
def test_half_a_surrogate_pair_is_refused_and_nothing_is_stored(
    method: str, path: str, body: str, served: Served, model: str
) -> None:
    answer = send(served, method, path, body % HALF, "application/json")

    assert answer.status_code == 422, answer.text
    assert answer.json()["code"] == "invalid_input"
    assert served.http.get(f"/v1/models/{model}/samples").json()["items"] == []
    assert served.http.get("/v1/policy").json()["blocking_processes"] == []


@pytest.mark.parametrize(
    ("body", "pointer", "detail"),
    [
        ("[]", "", "a JSON object"),
        ('{"head": 3}', "/head", "'auto', or: Input should be a JSON object"),
        ('{"head": {"kind": "svm"}}', "/head/kind", "'prototype', 'knn', 'linear' or 'full'"),
        ('{"head": {"kind": "knn", "k": 2.5}}', "/head/k", "valid integer"),
        ('{"head": {"kind": "knn", "k": "5"}}', "/head/k", "valid integer"),
        ('{"head": {"kind": "knn", "k": true}}', "/head/k", "valid integer"),
    ],
)
def test_a_value_of_another_kind_is_told_once_and_in_words_of_json(
    body: str, pointer: str, detail: str, served: Served, model: str
) -> None:
    answer = send(served, "POST", f"/v1/models/{model}/jobs", body, "application/json")
    ((at, told),) = pointers(answer).items()
    assert (at, detail in told) == (pointer, True), told


@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/v1/models/asked/jobs"), ("PUT", "/v1/policy")]
)
@pytest.mark.parametrize(
    "names", [["x" * 1_000_000], [f"epoch{number}" for number in range(60_000)]]
)
def test_an_answer_is_short_however_much_is_wrong(
    method: str, path: str, names: list[str], served: Served, model: str
) -> None:
    body = "{" + ",".join(f'"{name}":1' for name in names) + "}"
    answer = send(served, method, path, body, "application/json")
    assert answer.status_code == 422
    assert len(answer.json()["errors"]) <= 1000
    assert len(answer.content) < 1_000_000


@pytest.mark.parametrize("field", ["windows", "blocking_processes"])
def test_the_errors_of_a_long_list_are_not_looked_for(field: str, served: Served) -> None:
    body = f'{{"{field}": [{"{}," * 200_000}{{}}]}}'
    answer = send(served, "PUT", "/v1/policy", body, "application/json")
    assert list(pointers(answer)) == [f"/{field}"]


def test_a_body_that_is_missing_is_asked_for(served: Served, model: str) -> None:
    answer = send(served, "POST", f"/v1/models/{model}/classes", "", "application/json")
    assert pointers(answer) == {"": "Input should be a JSON object"}
