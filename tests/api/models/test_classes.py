"""Classes of a model that lives: added, renamed, merged, removed, and what holds through it."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from pets import FEATURES, FULL, NAMES, STILL, Pets
from support import Served, mlp, wait_until

IS_OLD = FULL["label"] < 3


def test_a_new_class_is_learned_and_versions_before_keep_theirs(pets: Pets) -> None:
    pets.train()
    before = pets.infer(2)

    pets.add("otter")
    pets.send_fourth()
    job = pets.train()

    after = pets.infer(3)
    assert [pets.version(n)["classes"] for n in (1, 2, 3)] == [NAMES, NAMES, [*NAMES, "otter"]]
    assert pets.infer(2).tolist() == before.tolist()
    assert (after.argmax(axis=1) == FULL["label"]).mean() > 0.95
    assert len(job["metrics"]["validation"]["recall"]) == 4
    assert job["metrics"]["validation"]["recall"][3] > 0.9
    assert [pets.classes[name][0] for name in (*NAMES, "otter")] == [0, 1, 2, 3]


def test_apps_see_the_classes_of_the_version_that_answers(pets: Pets) -> None:
    question = {"inputs": {"x": FULL["x"][0].tolist()}}
    metadata = f"/v2/models/{pets.name}"

    pets.add("otter")
    old = pets.served.http.post(f"{pets.url}/predict", json=question).json()
    old_shape = pets.served.http.get(metadata).json()["outputs"][0]["shape"]
    pets.train(**STILL)
    new = wait_until(lambda: predicted_by(pets, 2, question), "version 2 to be loaded")
    variant = pets.served.http.get(f"{pets.url}/versions/1/model.onnx", params={"variant": "ort"})
    shapes = [
        pets.served.http.get(f"{metadata}/versions/{n}").json()["outputs"][0]["shape"]
        for n in (1, 2)
    ]

    assert (old["classes"], len(old["predictions"][0]["probabilities"])) == (NAMES, 3)
    assert (new["classes"], len(new["predictions"][0]["probabilities"])) == ([*NAMES, "otter"], 4)
    assert variant.status_code == 200, variant.text
    assert old_shape == [-1, 3]
    assert shapes == [[-1, 3], [-1, 4]]
    content = pets.served.http.get(f"{pets.url}/latest/model.onnx").content
    written = {each.key: each.value for each in onnx.load_model(io.BytesIO(content)).metadata_props}
    assert json.loads(written["hone.classes"]) == [*NAMES, "otter"]


def predicted_by(pets: Pets, version: int, question: dict[str, Any]) -> dict[str, Any] | None:
    """A prediction by this version; while it is being loaded, the one before answers."""
    answer: dict[str, Any] = pets.served.http.post(f"{pets.url}/predict", json=question).json()
    return answer if answer["version"] == version else None


def test_a_name_may_have_slashes(pets: Pets) -> None:
    pets.add("n/a")
    url = f"{pets.url}/classes/n/a"
    assert pets.served.http.patch(url, json={"name": "n/k"}).status_code == 200
    assert pets.served.http.delete(url).status_code == 404
    assert pets.served.http.delete(f"{pets.url}/classes/n/k/merge").status_code == 405
    assert pets.served.http.delete(f"{pets.url}/classes/n/k").status_code == 204
    assert [*pets.classes] == NAMES


@pytest.mark.parametrize("start", ["latest", "base", "checkpoint"])
def test_a_job_begins_with_the_logits_that_old_classes_had(pets: Pets, start: str) -> None:
    pets.train()
    before = pets.infer(1 if start == "base" else 2)
    pets.add("otter")
    checkpoints = pets.served.http.get(f"{pets.url}/checkpoints").json()["items"]
    (last,) = [checkpoint["id"] for checkpoint in checkpoints if checkpoint["role"] == "final"]

    pets.train(**STILL, **{"from": last if start == "checkpoint" else start})

    after = pets.infer(3)
    np.testing.assert_allclose(after[:, :3], before, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(after[:, 3], before.mean(axis=1), rtol=1e-4, atol=1e-4)


def test_a_class_is_imprinted_by_the_first_job_that_has_samples_of_it(pets: Pets) -> None:
    pets.add("otter")
    pets.train()
    waiting = pets.infer(2)
    pets.send_fourth(train=40)

    pets.train(**STILL)

    after = pets.infer(3)
    lead = after[:, 3] - after[:, :3].mean(axis=1)
    assert 3 not in waiting.argmax(axis=1)
    np.testing.assert_allclose(after[:, :3], waiting[:, :3], rtol=1e-4, atol=1e-4)
    assert lead[~IS_OLD].mean() > 0 > lead[IS_OLD].mean()


def test_a_renamed_class_keeps_its_samples_and_old_versions_the_old_name(pets: Pets) -> None:
    samples = pets.classes["cat"][1]

    answer = pets.change("PATCH", "/cat", json={"name": "kitten"})
    pets.train(**STILL)

    assert (answer.status_code, answer.json()["name"]) == (200, "kitten")
    assert pets.classes["kitten"] == (0, samples)
    assert pets.version(1)["classes"] == NAMES
    assert pets.version(2)["classes"] == ["kitten", "dog", "wolf"]
    assert pets.version(2)["baseline"] != {}  # the same class, whatever its name
    assert "left_out" not in pets.version(2)["verdict"]["validation"]


def test_a_merged_class_gives_its_samples_to_the_other_and_its_row_goes(pets: Pets) -> None:
    pets.train()
    (_, cats), (_, dogs), (_, wolves) = pets.classes.values()
    before = pets.infer(2)

    answer = pets.change("POST", "/dog/merge", json={"into": "wolf"})
    listed = pets.served.http.get(f"{pets.url}/samples", params={"label": "wolf"}).json()["items"]
    pets.train(**STILL)

    assert (answer.status_code, answer.json()["index"], answer.json()["name"]) == (200, 1, "wolf")
    assert pets.classes == {"cat": (0, cats), "wolf": (1, dogs + wolves)}
    assert {each["label"] for each in listed} == {1}
    np.testing.assert_allclose(pets.infer(3), before[:, [0, 2]], rtol=1e-4, atol=1e-4)


def test_a_class_with_samples_goes_only_with_leave_to_unlabel_them(pets: Pets) -> None:
    (_, cats), (_, dogs), (_, wolves) = pets.classes.values()

    refused = pets.change("DELETE", "/cat")
    kept = pets.classes
    gone = pets.change("DELETE", "/cat", params={"unlabel": True})

    assert (refused.status_code, refused.json()["code"]) == (409, "in_use")
    assert f"{cats} samples" in refused.json()["detail"]
    assert list(kept) == NAMES
    assert gone.status_code == 204
    assert pets.classes == {"dog": (0, dogs), "wolf": (1, wolves)}
    assert pets.served.http.get(pets.url).json()["samples"]["unlabelled"] == cats
    assert pets.train(**STILL)["state"] == "succeeded"


def test_a_name_that_is_free_again_is_a_class_of_its_own(pets: Pets) -> None:
    pets.train()
    pets.change("DELETE", "/wolf", params={"unlabel": True})
    pets.add("wolf")

    pets.train(**STILL)

    after = pets.infer(3)
    np.testing.assert_allclose(after[:, 2], after[:, :2].mean(axis=1), rtol=1e-4, atol=1e-4)


def test_hyperparameters_and_gates_that_name_classes_follow(pets: Pets) -> None:
    given = {"class_weights": [1.0, 2.0, 3.0], "ignore_index": 2}
    floor = {"metric": "recall", "label": 2, "at_least": 0.5}
    gate = {"metric": "recall", "label": 1, "guard": [floor]}
    pets.served.http.patch(pets.url, json={"hyperparameters": given, "gate": gate})
    rule = {"at_most_every_hours": 1000, "enabled": False, "hyperparameters": given}
    trigger = pets.served.http.post(f"{pets.url}/triggers", json=rule).json()["id"]

    pets.add("otter")
    grown = pets.served.http.get(pets.url).json()["hyperparameters"]
    pets.change("DELETE", "/cat", params={"unlabel": True})

    model = pets.served.http.get(pets.url).json()
    shrunk, gate, names = model["hyperparameters"], model["gate"], model["target"]["classes"]
    assert [gate["label"], gate["guard"][0]["label"]] == names[:2]
    asked = pets.served.http.get(f"{pets.url}/triggers/{trigger}").json()["hyperparameters"]
    assert grown == {"class_weights": [1.0, 2.0, 3.0, 1.0], "ignore_index": 2}
    assert shrunk == asked == {"class_weights": [2.0, 3.0, 1.0], "ignore_index": 1}


def test_an_upload_that_version_1_is_another_form_of_is_kept_for_a_new_head(
    served: Served,
) -> None:
    model = onnx.load_model(io.BytesIO(mlp(FEATURES, 8, 3)))
    (first, relu, last) = model.graph.node
    on = numpy_helper.from_array(np.array(True), "on")
    half = numpy_helper.from_array(np.array(0.5, np.float32), "half")
    model.graph.initializer.extend([on, half])
    relu.output[0] = "all"
    dropout = onnx.helper.make_node("Dropout", ["all", "half", "on"], ["active0"], name="dropout")
    nodes = [*map(onnx.NodeProto.FromString, (n.SerializeToString() for n in (first, relu)))]
    nodes += [dropout, onnx.NodeProto.FromString(last.SerializeToString())]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    served.register("drops", model.SerializeToString(), classes=NAMES)

    answers = [
        served.http.post("/v1/models/drops/classes", json={"name": name})
        for name in ("otter", "mole")
    ]

    assert [answer.status_code for answer in answers] == [201, 201], answers[-1].text


def test_a_candidate_is_compared_on_what_both_know(pets: Pets) -> None:
    pets.train()
    pets.add("otter")
    pets.send_fourth()
    listed = pets.served.http.get(f"{pets.url}/samples", params={"suspect": True}).json()["items"]
    ranked = {"unlabelled": True, "order": "uncertainty"}
    uncertain = pets.served.http.get(f"{pets.url}/samples", params=ranked)

    job = pets.train()

    version = pets.version(3)
    everything = pets.served.http.get(pets.url).json()["samples"]["validation"]
    assert version["verdict"]["validation"]["left_out"] == 20
    assert version["metrics"]["samples"] == version["baseline"]["samples"] == everything - 20
    assert "without 20 of classes that only one of them knows" in version["reason"]
    assert job["metrics"]["validation"]["samples"] == everything
    # Of a class that it does not know `latest` doubts no label.
    assert 3 not in [each["label"] for each in listed]
    assert uncertain.status_code == 200
