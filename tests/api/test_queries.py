"""What a path and its query take: a mistyped parameter changes nothing, Allow names all methods."""

from __future__ import annotations

import json
import re
from typing import Any

import httpx
import pytest
from support import Served, blobs, mlp

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")


@pytest.fixture(scope="module")
def operations(description: dict[str, Any]) -> list[tuple[str, str]]:
    """Method and path of every route that is described, with values that name nothing."""
    return [
        (method.upper(), re.sub(r"\{(\w+)\}", value_of, path))
        for path, methods in description["paths"].items()
        for method in methods
    ]


def value_of(parameter: re.Match[str]) -> str:
    return "nobody" if parameter[1] in ("name", "alias") else "1"


@pytest.fixture(scope="module")
def url(served: Served) -> str:
    served.register("queried", mlp(3, 4, 2))
    served.upload("queried", **blobs(20, 3, 2)).raise_for_status()
    return "/v1/models/queried"


def stored(served: Served, url: str) -> dict[str, int]:
    return served.http.get(url).json()["samples"]


def faults(answer: httpx.Response) -> dict[str, str]:
    assert answer.status_code == 422, answer.text
    return {fault["pointer"]: fault["detail"] for fault in answer.json()["errors"]}


def test_every_route_that_changes_something_refuses_unknown_parameters(
    served: Served, operations: list[tuple[str, str]]
) -> None:
    changing = [
        (method, path) for method, path in operations if method != "GET" and path.startswith("/v1/")
    ]
    assert len(changing) > 25
    for method, path in changing:
        answer = served.http.request(method, path, params={"nonsense": 1})
        assert list(faults(answer)) == ["/query/nonsense"], f"{method} {path}"


def test_a_mistyped_filter_deletes_nothing_and_the_right_ones_are_named(
    served: Served, url: str
) -> None:
    before = stored(served, url)

    answer = served.http.delete(f"{url}/samples", params={"all": True, "lable": 1, "Split": "x"})

    told = faults(answer)
    assert list(told) == ["/query/lable", "/query/Split"]
    for name in ("all", "key", "label", "pinned", "quarantined", "retrain", "split", "unlabelled"):
        assert name in told["/query/lable"]
    assert stored(served, url) == before


def test_a_repeated_filter_deletes_nothing(served: Served, url: str) -> None:
    before = stored(served, url)

    answer = served.http.delete(f"{url}/samples", params={"label": [0, 1], "split": "train"})

    assert faults(answer) == {"/query/label": "is given 2 times, and takes one value"}
    assert stored(served, url) == before


def test_a_mistyped_split_stores_nothing(served: Served, url: str) -> None:
    before = stored(served, url)

    answer = served.http.post(
        f"{url}/samples?spilt=validation", json={"inputs": {"x": [1, 2, 3]}, "label": 1}
    )

    assert "split" in faults(answer)["/query/spilt"]
    assert stored(served, url) == before


@pytest.mark.parametrize(
    ("query", "kind"),
    [("label", "application/json"), ("key", "application/jsonl"), ("ignore_columns", "image/png")],
)
def test_a_parameter_that_the_body_makes_nothing_of_stores_nothing(
    query: str, kind: str, served: Served, url: str
) -> None:
    before = stored(served, url)

    answer = served.http.post(
        f"{url}/samples?{query}=1",
        content=b'{"inputs": {"x": [1, 2, 3]}}',
        headers={"Content-Type": kind},
    )

    assert kind in faults(answer)[f"/query/{query}"]
    assert stored(served, url) == before


def test_reading_and_inference_stay_tolerant(served: Served, url: str) -> None:
    assert served.http.get(f"{url}/samples?foo=1&foo=2").status_code == 200
    tensor = {"name": "x", "shape": [1, 3], "datatype": "FP32", "data": [1, 2, 3]}
    answer = served.http.post("/v2/models/queried/infer?foo=1", json={"inputs": [tensor]})
    assert answer.status_code == 200, answer.text


def test_every_reading_route_refuses_a_parameter_of_one_value_that_comes_twice(
    served: Served, description: dict[str, Any]
) -> None:
    asked = 0
    for path, methods in description["paths"].items():
        reads = methods.get("get", {}).get("parameters", [])
        for name in [read["name"] for read in reads if read["in"] == "query"]:
            kinds = [read["schema"] for read in reads if read["name"] == name]
            if '"array"' in json.dumps(kinds):
                continue
            url = re.sub(r"\{(\w+)\}", value_of, path)
            answer = served.http.get(url, params={name: ["1", "1"]})
            assert "is given 2 times" in faults(answer)[f"/query/{name}"], path
            asked += 1
    assert asked > 40


def test_a_method_that_a_path_has_not_is_answered_with_all_that_it_has(
    served: Served, operations: list[tuple[str, str]]
) -> None:
    there_are: dict[str, set[str]] = {}
    for method, path in operations:
        there_are.setdefault(path, set()).add(method)
    for path, methods in there_are.items():
        wrong = next(method for method in METHODS[::-1] if method not in methods)
        answer = served.http.request(wrong, path)
        assert answer.status_code == 405, f"{wrong} {path}: {answer.text}"
        allowed = set(answer.headers["allow"].split(", "))
        assert allowed - {"HEAD"} == methods, path
        assert f"; it takes {answer.headers['allow']}" in answer.text
    assert served.http.get("/v1/nosuch").json()["detail"].endswith("; /docs lists the routes")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PATCH", "/v1/models/queried/samples/stats", "GET, HEAD"),
        ("DELETE", "/v1/models/queried/samples/duplicates", "GET, HEAD"),
        ("PATCH", "/v1/models/queried/samples/archive", "GET, HEAD, POST"),
        ("POST", "/v1/models/queried/latest/model.onnx", "GET, HEAD"),
        ("POST", "/docs/assets/swagger-ui.css", "GET, HEAD"),
    ],
)
def test_a_path_beside_others_has_its_own_methods(
    method: str, path: str, allowed: str, served: Served, url: str
) -> None:
    answer = served.http.request(method, path, json={"label": 1})

    assert (answer.status_code, answer.headers.get("allow")) == (405, allowed)
    assert answer.json()["code"] == "method_not_allowed"


@pytest.mark.parametrize(
    ("sample", "status"), [("0", 422), ("9" * 5000, 422), ("1x", 404), ("-1", 404)]
)
def test_what_is_no_samples_id_is_refused(
    sample: str, status: int, served: Served, url: str
) -> None:
    assert served.http.get(f"{url}/samples/{sample}").status_code == status
