"""A mistyped field is told with the one that was probably meant."""

from __future__ import annotations

from typing import Any

import pytest
from support import Served, mlp


@pytest.fixture(scope="module")
def model(served: Served) -> str:
    served.register("hinted", mlp(4, 8, 3))
    return "hinted"


@pytest.mark.parametrize(
    ("asked", "body", "meant"),
    [
        ("POST /jobs", {"lr": 0.1}, "did you mean learning_rate?"),
        ("POST /jobs", {"form": "base"}, "did you mean from?"),
        ("PATCH ", {"gate": {"min_validation_sample": 9}}, "min_validation_samples?"),
        ("PATCH ", {"hyperparameters": {"bs": 9}}, "did you mean batch_size?"),
    ],
)
def test_a_mistyped_field_names_the_one_that_was_meant(
    served: Served, model: str, asked: str, body: dict[str, Any], meant: str
) -> None:
    method, path = asked.split(" ")
    answer = served.http.request(method, f"/v1/models/{model}{path}", json=body)
    assert answer.status_code == 422
    (fault,) = answer.json()["errors"]
    assert fault["detail"].endswith(meant)


def test_a_field_like_no_other_has_no_hint(served: Served, model: str) -> None:
    answer = served.http.post(f"/v1/models/{model}/jobs", json={"zzzz": 1})
    assert "mean" not in answer.json()["errors"][0]["detail"]


def test_the_home_page_is_the_dashboard(served: Served) -> None:
    answer = served.tokenless.get("/", follow_redirects=True)
    assert answer.status_code == 200
    assert answer.url.path == "/dashboard"
