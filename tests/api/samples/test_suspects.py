"""Labels that the current version takes for wrong are listed for a person to look at."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support import Served

DIGITS = Path(__file__).parents[3] / "examples" / "digits"


@pytest.fixture(scope="module")
def wrong(served: Served) -> dict[int, int]:
    """Digits of which one in twenty is mislabelled, trained on: id → its right label."""
    with np.load(DIGITS / "device.npz") as arrays:
        images, labels = arrays["image"], arrays["label"]
    rng = np.random.default_rng(0)
    some = rng.permutation(len(labels))[: len(labels) // 20]
    given = labels.copy()
    given[some] = (given[some] + rng.integers(1, 10, len(some))) % 10
    served.register("suspects", (DIGITS / "base.onnx").read_bytes(), gate={"mode": "always"})
    first = served.upload("suspects", image=images, label=given).json()["ids"][0]
    served.train("suspects", seed=1, epochs=15)
    return {first + int(at): int(labels[at]) for at in some}


def listed(served: Served, **query: object) -> list[dict[str, object]]:
    answer = served.http.get(
        "/v1/models/suspects/samples", params={"suspect": True, "limit": 200, **query}
    )
    answer.raise_for_status()
    items: list[dict[str, object]] = answer.json()["items"]
    return items


def test_most_wrong_labels_are_listed_and_most_that_are_listed_are_wrong(
    served: Served, wrong: dict[int, int]
) -> None:
    found = listed(served)
    hits = [each for each in found if each["id"] in wrong]
    assert len(hits) >= 0.6 * len(wrong)
    assert len(hits) >= 0.5 * len(found)
    right = [hit for hit in hits if hit["predicted"] == wrong[hit["id"]]]
    assert len(right) >= 0.7 * len(hits)
    doubts = [each["doubt"] for each in found]
    assert doubts == sorted(doubts, reverse=True)
    assert doubts[-1] >= 0.8


def test_a_label_that_was_put_right_is_listed_no_more(
    served: Served, wrong: dict[int, int]
) -> None:
    first = next(each for each in listed(served) if each["id"] in wrong)
    path = f"/v1/models/suspects/samples/{first['id']}"
    served.http.patch(path, json={"label": wrong[first["id"]]}).raise_for_status()
    assert first["id"] not in [each["id"] for each in listed(served)]


def test_suspects_are_listed_page_by_page(served: Served, wrong: dict[int, int]) -> None:
    whole = [each["id"] for each in listed(served)]
    query = {"suspect": True, "limit": 3}
    page = served.http.get("/v1/models/suspects/samples", params=query).json()
    again = {**query, "cursor": page["next"]}
    page_2 = served.http.get("/v1/models/suspects/samples", params=again).json()
    assert [each["id"] for each in page["items"] + page_2["items"]] == whole[:6]


@pytest.mark.parametrize("query", [{"label": 3}, {"unlabelled": True}, {"order": "uncertainty"}])
def test_suspect_goes_with_nothing_else(
    served: Served, wrong: dict[int, int], query: dict[str, object]
) -> None:
    params = {"suspect": True, **query}
    answer = served.http.get("/v1/models/suspects/samples", params=params)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "/query/suspect"


def test_labels_of_a_class_that_does_not_count_are_no_suspects(
    served: Served, wrong: dict[int, int]
) -> None:
    path = "/v1/models/suspects"
    hyperparameters = {"hyperparameters": {"ignore_index": int(str(listed(served)[0]["label"]))}}
    ignored = hyperparameters["hyperparameters"]["ignore_index"]
    served.http.patch(path, json=hyperparameters).raise_for_status()
    version = served.train("suspects", seed=2, epochs=1)["version"]
    measured = served.http.get(f"{path}/versions/{version}").json()["metrics"]
    assert sum(measured["confusion_matrix"][ignored]) == 0
    found = listed(served)
    assert found
    assert ignored not in [each["label"] for each in found]
