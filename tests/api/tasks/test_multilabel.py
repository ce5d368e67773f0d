"""A model of several labels through a real daemon: registered, taught by names, judged by F1."""

from __future__ import annotations

import numpy as np
from support import Served, mlp, npz

NAMES = ["cat", "dog", "night"]


def samples(count: int, seed: int) -> list[dict[str, object]]:
    """Inputs whose first numbers say which labels they have."""
    numbers = np.random.default_rng(seed).normal(size=(count, 8)).round(3)
    return [
        {
            "inputs": {"x": row.tolist()},
            "label": [name for name, number in zip(NAMES, row, strict=False) if number > 0],
            "split": "train" if place % 4 else "validation",
        }
        for place, row in enumerate(numbers)
    ]


def test_a_model_of_labels_is_taught_by_names_and_judged_by_f1(served: Served) -> None:
    model = served.register("tags-of-photos", mlp(8, 16, 3), loss="multilabel", classes=NAMES)
    assert (model["gate"]["metric"], model["target"]["classes"]) == ("micro_f1", NAMES)
    body = {"samples": samples(240, 1)}
    served.http.post("/v1/models/tags-of-photos/samples", json=body).raise_for_status()
    listed = served.http.get("/v1/models/tags-of-photos/samples?limit=1").json()["items"]
    assert len(listed[0]["label"]) == 3

    job = served.train("tags-of-photos", epochs=60, learning_rate=0.01, seed=1)
    version = served.http.get("/v1/models/tags-of-photos/versions/2").json()
    assert version["promoted"], version["reason"]
    assert version["verdict"]["validation"]["test"] == "bootstrap"
    assert "validation micro_f1 went from" in version["reason"]
    assert version["metrics"]["micro_f1"] > 0.8
    assert len(version["metrics"]["f1"]) == 3
    assert job["metrics"]["validation"]["macro_f1"] > 0.8

    url = "/v1/models/tags-of-photos/predict"
    asked = {"inputs": {"x": [2, -2, 2, 0, 0, 0, 0, 0]}}
    (named,) = served.http.post(url, params={"top": 2}, json=asked).json()["predictions"]
    assert set(named["top"]["label"]) == {"cat", "night"}
    (all_of_them,) = served.http.post(url, json=asked).json()["predictions"]
    assert len(all_of_them["probabilities"]) == 3


def test_what_does_not_fit_labels_is_refused(served: Served) -> None:
    served.register("few-tags", mlp(8, 3), loss="multilabel", classes=NAMES)
    url = "/v1/models/few-tags"
    wrong = {"inputs": {"x": [0] * 8}, "label": ["cow"]}
    answer = served.http.post(f"{url}/samples", json=wrong)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["detail"].startswith("label 'cow' is not one of")
    for half in ([0.5, 0, 1], [0.5, None, 1], {"cat": 0.5}):
        answer = served.http.post(f"{url}/samples", json={**wrong, "label": half})
        assert answer.json()["errors"][0]["detail"].endswith("this loss takes 0 or 1")
    assert served.http.get(f"{url}/samples?label=cat").status_code == 422
    assert served.http.patch(url, json={"gate": {"metric": "mae"}}).status_code == 422
    assert served.http.patch(url, json={"gate": {"metric": "macro_f1"}}).status_code == 200
    assert served.http.patch(url, json={"classes": ["a", "b"]}).status_code == 422
    renamed = served.http.patch(url, json={"classes": ["a", "b", "c"]})
    assert renamed.json()["target"]["classes"] == ["a", "b", "c"]
    head = served.http.post(f"{url}/jobs", json={"head": "auto"})
    assert head.status_code in (409, 422)


def test_true_and_false_are_labels_in_every_form(served: Served) -> None:
    served.register("told-tags", mlp(8, 3), loss="multilabel", classes=NAMES)
    url = "/v1/models/told-tags/samples"
    x = ",".join(f"x[{n}]" for n in range(8))
    bodies = {
        "application/json": b'{"inputs": {"x": [0,0,0,0,0,0,0,0]}, "label": [true, false, true]}',
        "application/x-npz": npz(x=np.ones((1, 8)), label=np.array([[True, False, True]])),
        "text/csv": f"{x},{','.join(NAMES)}\n2,2,2,2,2,2,2,2,True,false,1".encode(),
    }
    for media_type, body in bodies.items():
        answer = served.http.post(url, content=body, headers={"Content-Type": media_type})
        assert answer.status_code == 201, answer.text
    assert [entry["label"] for entry in served.http.get(url).json()["items"]] == [[1, 0, 1]] * 3

    csv = {"Content-Type": "text/csv"}
    body = f"{x},{','.join(NAMES)}\n3,3,3,3,3,3,3,3,yes,,1"
    detail = served.http.post(url, content=body, headers=csv).json()["errors"][0]["detail"]
    assert detail == "line 2: label: one of its columns holds 'yes', which is not a number"
