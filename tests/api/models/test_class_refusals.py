"""Changes of classes that are refused: what is said, and that nothing has changed."""

from __future__ import annotations

import io
from typing import Any

import onnx
from pets import FEATURES, NAMES, Pets
from support import Served, mlp

CHANGES: list[tuple[str, str, Any]] = [
    ("POST", "", {"name": "otter"}),
    ("PATCH", "/cat", {"name": "kitten"}),
    ("POST", "/cat/merge", {"into": "dog"}),
    ("DELETE", "/cat?unlabel=true", None),
]
WRONG: list[tuple[str, str, Any, int, str]] = [
    ("POST", "", {"name": "dog"}, 409, "choose another name"),
    ("PATCH", "/cat", {"name": "dog"}, 409, "choose another name"),
    ("PATCH", "/cow", {"name": "ox"}, 404, "there are 'cat', 'dog', 'wolf'"),
    ("DELETE", "/cow", None, 404, "there are 'cat', 'dog', 'wolf'"),
    ("POST", "/cat/merge", {"into": "cow"}, 404, "'cow'"),
    ("POST", "/cat/merge", {"into": "cat"}, 422, "into itself"),
    ("POST", "", {"name": ""}, 422, "/name"),
    ("POST", "", {"name": ".."}, 422, "/name"),
    ("PATCH", "/cat", {"name": "line\nbreak"}, 422, "leave out U+000A"),
]


def test_a_wrong_change_is_named_and_changes_nothing(pets: Pets) -> None:
    before = pets.served.http.get(pets.url).json()

    for method, path, body, status, said in WRONG:
        answer = pets.change(method, path, json=body)

        assert answer.status_code == status, answer.text
        assert said in answer.text

    assert pets.served.http.get(pets.url).json() == before


def test_classes_stay_while_a_job_waits_for_its_turn(pets: Pets) -> None:
    pets.served.http.post("/v1/pause")
    job = pets.served.ask_for_job(pets.name, epochs=1)

    for method, path, body in CHANGES:
        answer = pets.change(method, path, json=body)

        assert (answer.status_code, answer.json()["code"]) == (409, "in_use")
        assert f"job {job['id']} of this model" in answer.json()["detail"]

    assert list(pets.classes) == NAMES
    pets.served.http.post(f"/v1/jobs/{job['id']}/cancel")
    pets.served.http.post("/v1/resume")


def test_a_token_without_models_admin_sees_classes_and_changes_none(pets: Pets) -> None:
    wanted = {"name": "reader", "scopes": ["models:read"]}
    secret = pets.served.http.post("/v1/tokens", json=wanted).json()["secret"]
    headers = {"Authorization": f"Bearer {secret}"}

    listed = pets.change("GET", "", headers=headers)
    refused = [pets.change(m, path, json=body, headers=headers) for m, path, body in CHANGES]

    assert listed.status_code == 200
    assert [each.json()["code"] for each in refused] == ["insufficient_scope"] * len(CHANGES)


def test_models_whose_classes_cannot_change_say_why(served: Served) -> None:
    relu = onnx.load_model(io.BytesIO(mlp(FEATURES, 3)))
    relu.graph.node[0].output[0] = "sums"
    relu.graph.node.append(onnx.helper.make_node("Relu", ["sums"], ["logits"], name="last"))
    served.register("unnamed-classes", mlp(FEATURES, 3))
    served.register("no-classes", mlp(FEATURES, 3), loss="mse")
    served.register("two-classes", mlp(FEATURES, 2), classes=["a", "b"])
    served.register("headless", relu.SerializeToString(), classes=NAMES)

    unnamed, regression, headless = (
        served.http.post(f"/v1/models/{name}/classes", json={"name": "otter"})
        for name in ("unnamed-classes", "no-classes", "headless")
    )
    last = served.http.delete("/v1/models/two-classes/classes/a")

    assert "PATCH /v1/models/unnamed-classes" in unnamed.json()["errors"][0]["detail"]
    assert "no classifier: its loss is mse" in regression.json()["errors"][0]["detail"]
    assert headless.json()["code"] == "graph_refused"
    assert "Relu 'last'" in headless.json()["detail"]
    assert "a classifier needs 2" in last.json()["errors"][0]["detail"]
    assert {each.status_code for each in (unnamed, regression, headless, last)} == {422}
