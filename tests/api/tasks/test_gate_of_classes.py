"""The gate judges by figures of classes, of all or of one, and keeps floors under them."""

from __future__ import annotations

from typing import Any

import pytest
from support import Served, blobs, mlp

GOOD = {"epochs": 5, "learning_rate": 0.02, "seed": 1}
CLASSES = ["smoke", "fire", "fog"]


def register(served: Served, name: str, **spec: object) -> str:
    served.register(name, mlp(8, 16, 3), **spec)
    served.upload(name, **blobs(600, 8, 3))
    return name


def version(served: Served, name: str, number: int) -> dict[str, Any]:
    return served.http.get(f"/v1/models/{name}/versions/{number}").json()


def guarded(served: Served, name: str, **floor: object) -> dict[str, Any]:
    """What the gate says of a version that has a floor to hold."""
    name = register(served, name, classes=CLASSES, gate={"guard": [floor]})
    job = served.train(name, **GOOD)
    return version(served, name, job["version"])


def test_a_floor_under_the_recall_of_a_class_keeps_a_better_version_back(served: Served) -> None:
    held = guarded(served, "unsafe", metric="recall", label="fire", at_least=1)
    recall = held["metrics"]["recall"][1]
    assert recall < 1
    assert held["verdict"]["validation"]["outcome"] == "better"
    assert held["promoted"] is False
    assert f"its recall of 'fire' is {recall:.4g}, below 1" in held["reason"]
    assert held["verdict"]["guard_0"]["outcome"] == "worse"


def test_a_version_that_holds_the_floor_is_promoted_and_says_so(served: Served) -> None:
    held = guarded(served, "safe", metric="recall", label="fire", at_least=0.5)
    assert held["promoted"] is True
    assert "its recall of 'fire' is 0." in held["reason"]


def test_a_floor_that_no_sample_tells_is_not_held(served: Served) -> None:
    name = register(
        served, "unknown", gate={"guard": [{"metric": "recall", "label": 2, "at_least": 0}]}
    )
    ids = [
        entry["id"]
        for entry in served.http.get(
            f"/v1/models/{name}/samples?split=validation&label=2&limit=1000"
        ).json()["items"]
    ]
    for each in ids:
        assert served.http.delete(f"/v1/models/{name}/samples/{each}").status_code == 204
    job = served.train(name, **GOOD)
    held = version(served, name, job["version"])
    assert held["promoted"] is False
    assert "no sample tells its recall of 2, which the gate guards" in held["reason"]


@pytest.mark.parametrize(
    ("floor", "pointer", "says"),
    [
        ({"metric": "mae"}, "metric", "is of recall, precision, iou, accuracy, balanced_accuracy"),
        ({"metric": "loss"}, "at_most", "less loss is better, so say at_most, and that alone"),
        ({"metric": "accuracy", "at_most": 1}, "at_least", "more accuracy is better, so say"),
        ({"metric": "accuracy", "at_least": None}, "at_least", "more accuracy is better, so say"),
        ({"metric": "recall"}, "label", "is a figure of each class; name one"),
        ({"metric": "recall", "label": "flood"}, "label", "the model has no class 'flood'"),
        ({"metric": "recall", "label": 3}, "label", "the model has no class 3"),
        ({"metric": "accuracy", "label": "b"}, "label", "of all classes together"),
    ],
)
def test_a_floor_that_does_not_fit_the_model_is_refused(
    served: Served, floor: dict[str, Any], pointer: str, says: str
) -> None:
    if not served.http.get("/v1/models/floors").is_success:
        served.register("floors", mlp(8, 16, 3), classes=["a", "b", "c"])
    change = {"gate": {"guard": [{"at_least": 0.5, **floor}]}}
    answer = served.http.patch("/v1/models/floors", json=change)
    assert answer.status_code == 422
    (problem,) = answer.json()["errors"]
    assert problem["pointer"] == f"/gate/guard/0/{pointer}"
    assert says in problem["detail"]


@pytest.mark.parametrize("metric", ["recall", "precision", "iou"])
def test_a_figure_of_one_class_decides_by_a_paired_bootstrap(served: Served, metric: str) -> None:
    gate = {"metric": metric, "label": "fire"}
    name = register(served, f"fire-{metric}", classes=CLASSES, gate=gate)
    made = version(served, name, served.train(name, **GOOD)["version"])
    assert f"validation {metric} of 'fire' went from 0" in made["reason"]
    found = made["verdict"]["validation"]
    assert (found["test"], found["outcome"], made["promoted"]) == ("bootstrap", "better", True)
    assert found["candidate"] == made["metrics"][metric][1]
    assert found["baseline"] == made["baseline"][metric][1]
    assert found["interval"][0] <= found["gain"] <= found["interval"][1]


def test_a_figure_of_a_class_that_is_gone_promotes_nothing(served: Served) -> None:
    gate = {"metric": "recall", "label": "fire"}
    name = register(served, "no-fire", classes=CLASSES, gate=gate)
    served.http.patch(f"/v1/models/{name}/classes/fire", json={"name": "flames"}).raise_for_status()
    made = version(served, name, served.train(name, max_steps=2)["version"])
    assert made["promoted"] is False
    assert "nothing in the validation samples tells its recall of 'fire'" in made["reason"]
    url = f"/v1/models/{name}"
    served.http.patch(url, json={"gate": {"margin": 0.2}}).raise_for_status()
    assert served.http.patch(url, json={"gate": {"label": "fire"}}).status_code == 422
    served.http.patch(url, json={"gate": {"label": "flames"}}).raise_for_status()
    renamed = {"classes": ["none", "glow", "smoke"], "gate": {"label": "glow"}}
    served.http.patch(url, json=renamed).raise_for_status()


@pytest.mark.parametrize(
    ("gate", "pointer", "says"),
    [
        ({"metric": "recall"}, "label", "recall is a figure of each class; name one"),
        ({"metric": "recall", "label": "flood"}, "label", "the model has no class 'flood'"),
        ({"metric": "recall", "label": 3}, "label", "the model has no class 3"),
        ({"label": "b"}, "label", "accuracy is of all classes together; leave the label out"),
        ({"metric": "mae"}, "metric", "is measured by accuracy or balanced_accuracy or macro_f1"),
    ],
)
def test_a_metric_of_a_class_that_does_not_fit_is_refused(
    served: Served, gate: dict[str, Any], pointer: str, says: str
) -> None:
    if not served.http.get("/v1/models/judged").is_success:
        served.register("judged", mlp(8, 16, 3), classes=["a", "b", "c"])
    answer = served.http.patch("/v1/models/judged", json={"gate": gate})
    assert answer.status_code == 422
    (problem,) = answer.json()["errors"]
    assert problem["pointer"] == f"/gate/{pointer}"
    assert says in problem["detail"]


@pytest.mark.parametrize("metric", ["balanced_accuracy", "macro_f1", "mean_iou"])
def test_a_figure_of_classes_decides_by_a_paired_bootstrap(served: Served, metric: str) -> None:
    name = register(served, metric.replace("_", "-"), gate={"metric": metric})
    made = version(served, name, served.train(name, **GOOD)["version"])
    assert made["reason"].startswith(f"promoted: validation {metric} went from 0.")
    assert made["verdict"]["validation"]["test"] == "bootstrap"
    assert made["verdict"]["validation"]["candidate"] == made["metrics"][metric]
