"""Spans of texts, learned and predicted over HTTP."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
import pytest
from names import CLASSES, SENTENCES, TEXTS, register, send, sentence
from support import Served
from texts import labeller, tokenizer

RECIPE = {"epochs": 15, "batch_size": 8, "learning_rate": 0.02, "seed": 1}


def samples(spans: list[tuple[str, list[dict[str, Any]]]] = SENTENCES) -> list[dict[str, Any]]:
    return [
        {"text": text, "label": found, "split": "validation" if n % 4 == 3 else "train"}
        for n, (text, found) in enumerate(spans)
    ]


@pytest.mark.parametrize(("name", "classes"), [("bio", CLASSES), ("io", ("PER", "O", "LOC"))])
def test_spans_are_learned_and_predicted_at_the_right_characters(
    served: Served, name: str, classes: tuple[str, ...]
) -> None:
    registered = register(served, name, classes)
    assert registered.status_code == 201, registered.text
    assert registered.json()["target"]["span_types"] == ["PER", "LOC"]
    assert send(served, name, samples()).json()["accepted"] == 81

    job = served.train(name, **RECIPE)

    metrics = job["metrics"]["validation"]
    assert metrics["span_f1"] > 0.95 > job["metrics"]["baseline"]["span_f1"]
    assert metrics["token_accuracy"] > 0.95
    version = served.http.get(f"/v1/models/{name}/versions/{job['version']}").json()
    assert version["promoted"], version["reason"]
    assert "validation span_f1 went from" in version["reason"]
    path = f"/v1/models/{name}/versions/1/comparison/{job['version']}"
    comparison = served.http.get(path).json()
    assert comparison["after"]["span_f1"] == metrics["span_f1"] > comparison["before"]["span_f1"]
    send(served, name, [{"text": text} for text in (sentence(5)[0][3:], "so so so")])
    order = {"unlabelled": True, "order": "uncertainty"}
    listed = served.http.get(f"/v1/models/{name}/samples", params=order).json()["items"]
    assert len(listed) == 2
    assert listed[0]["uncertainty"] > listed[1]["uncertainty"] > 0
    text, expected = sentence(26)
    text = f"\U0001f600 {text}"
    answer = served.http.post(f"/v1/models/{name}/predict", json={"text": text})
    assert answer.status_code == 200, answer.text
    (found,) = answer.json()["predictions"]
    assert _moved(expected, 2) == [
        {name: span[name] for name in ("start", "end", "label")} for span in found["spans"]
    ]
    assert all(0.5 < span["score"] <= 1 for span in found["spans"])


def test_a_floor_a_base_set_and_another_network_go_with_spans(served: Served) -> None:
    register(served, "kept")
    path = "/v1/models/kept"
    floor = {"metric": "f1", "label": "B-PER", "at_least": 0.9}
    assert served.http.patch(path, json={"gate": {"guard": [floor]}}).status_code == 200
    base = [{"text": f"so {text}", "label": _moved(found, 3)} for text, found in SENTENCES]
    assert served.http.post(f"{path}/base-set", json={"samples": base}).status_code == 201
    send(served, "kept", samples())

    job = served.train("kept", **RECIPE, replay=0.5)
    version = served.http.get(f"{path}/versions/{job['version']}").json()
    assert version["promoted"], version["reason"]
    assert "its f1 of 'B-PER' is" in version["reason"]
    assert version["verdict"]["base_set"]["outcome"] == "better"

    model = {"model": ("m.onnx", labeller(96, 5, width=32))}
    upgrade = served.http.put(f"{path}/base", data={"spec": "{}"}, files=model)
    assert upgrade.status_code == 202, upgrade.text
    done = served.wait_for_job(upgrade.json()["id"])
    assert done["state"] == "succeeded", done["error"]
    assert done["metrics"]["validation"]["span_f1"] > 0.95


def _moved(spans: list[dict[str, Any]], by: int) -> list[dict[str, Any]]:
    return [{**span, "start": span["start"] + by, "end": span["end"] + by} for span in spans]


@pytest.mark.parametrize(
    ("change", "pointer", "expected"),
    [
        ({"classes": ("PER", "LOC", "ORG", "DATE", "X")}, "/spec/classes", "no class is 'O'"),
        ({"classes": ("O", "PER", "LOC")}, "/spec/classes", "name 5 different classes"),
        ({"classes": None}, "/spec/classes", "name 5 different classes"),
        ({"preprocess": None}, "/spec/loss", "token_classification learns texts"),
        ({"preprocess": {"kind": "text", "pairs": True}}, "/spec/preprocess/pairs", "one text"),
        ({"preprocess": {"kind": "text", "stride": 8}}, "/spec/preprocess/stride", "truncated"),
    ],
)
def test_what_cannot_tell_spans_is_refused(
    served: Served, change: dict[str, Any], pointer: str, expected: str
) -> None:
    files = {"model": ("m.onnx", labeller(96, 5)), "tokenizer": ("t.json", tokenizer(TEXTS))}
    spec = {"name": "refused", "loss": "token_classification", "classes": CLASSES}
    spec = {**spec, "preprocess": {"kind": "text", "max_tokens": 32}, **change}
    said = {name: value for name, value in spec.items() if value is not None}
    answer = served.http.post("/v1/models", data={"spec": json.dumps(said)}, files=files)
    assert answer.status_code == 422
    problems = {error["pointer"]: error["detail"] for error in answer.json()["errors"]}
    assert expected in problems.get(pointer, ""), problems


def test_predictions_of_spans_are_json_and_an_output_is_an_array(served: Served) -> None:
    register(served, "shapes")
    ask = {"json": {"instances": [{"text": TEXTS[0]}, {"text": "Bob"}]}}
    path = "/v1/models/shapes/predict"
    answer = served.http.post(path, params={"output": "logits"}, **ask).json()
    assert [set(prediction) for prediction in answer["predictions"]] == [{"spans", "outputs"}] * 2
    npz = {"headers": {"Accept": "application/x-npz"}}
    refused = served.http.post(path, **ask, **npz)
    assert refused.status_code == 422
    assert "spans and boxes are told as application/json" in refused.json()["errors"][0]["detail"]
    content = served.http.post(path, params={"output": "logits"}, **ask, **npz).content
    arrays = np.load(io.BytesIO(content))
    assert arrays.files == ["outputs/logits"]
    assert arrays["outputs/logits"].shape[::2] == (2, 5)
