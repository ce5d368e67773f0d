"""Next-token prediction over HTTP: texts in, a model of one's own words out."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import onnx
import onnxruntime
import pytest
from interruption import interrupted, weights_of
from support import Served
from texts import classifier, decoder, labeller, tokenizer
from tokenizers import Tokenizer

WORDS = ("the cat sat on the mat", "a dog ran in the park", "the bird sang in a tree")
PLACES = ("mat", "park", "tree")
TEXTS = [f"{WORDS[n % 3]} and {WORDS[(n + 1) % 3]} {n}" for n in range(60)]
TEXT = {"kind": "text", "max_tokens": 32}
RECIPE = {"epochs": 8, "batch_size": 8, "learning_rate": 0.01, "seed": 1}


def register(
    served: Served, name: str, model: bytes, made: bytes | None = None, **spec: Any
) -> dict[str, Any]:
    files = {"model": ("m.onnx", model), "tokenizer": ("t.json", made or tokenizer(TEXTS))}
    said = {"name": name, "loss": "causal_lm", "preprocess": TEXT, **spec}
    answer = served.http.post("/v1/models", data={"spec": json.dumps(said)}, files=files)
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


def send(served: Served, name: str, texts: list[str], labels: list[Any] | None = None) -> Any:
    about: list[dict[str, Any]] = [
        {"split": "validation" if n % 4 == 3 else "train"} for n in range(len(texts))
    ]
    for each, label in zip(about, labels or (), strict=False):
        each["label"] = label
    files = [("file", (f"{n}.txt", text.encode(), "text/plain")) for n, text in enumerate(texts)]
    url = f"/v1/models/{name}/samples"
    return served.http.post(url, files=files, data={"samples": json.dumps(about)})


def latest(served: Served, name: str) -> bytes:
    content: bytes = served.http.get(f"/v1/models/{name}/latest/model.onnx").content
    return content


def test_a_decoder_learns_texts_that_have_no_labels(served: Served) -> None:
    register(served, "lm", decoder(64))
    assert send(served, "lm", TEXTS).status_code == 201
    refused = send(served, "lm", ["a cat"], ["cat"])
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["pointer"] == "/files/0/label"

    job = served.train("lm", **RECIPE)

    before, after = job["metrics"]["baseline"], job["metrics"]["validation"]
    assert after["perplexity"] < 0.3 * before["perplexity"]
    assert after["top_3_token_accuracy"] > 0.7
    version = served.http.get("/v1/models/lm/versions/2").json()
    assert version["promoted"], version["reason"]
    assert "validation perplexity went from" in version["reason"]
    fetched = served.http.get("/v1/models/lm/tokenizer.json")
    sha256 = fetched.headers["etag"].strip('"')
    assert version["provenance"]["tokenizer_sha256"] == sha256
    model = onnx.load_from_string(latest(served, "lm"))
    assert {each.key: each.value for each in model.metadata_props}[
        "hone.tokenizer_sha256"
    ] == sha256
    ids = Tokenizer.from_str(fetched.text).encode("the cat sat on the").ids
    session = onnxruntime.InferenceSession(model.SerializeToString())
    logits = session.run(None, {"input_ids": [ids], "attention_mask": [[1] * len(ids)]})[0]
    assert Tokenizer.from_str(fetched.text).decode([logits[0, -1].argmax()]) == "mat"


@pytest.mark.parametrize(
    ("name", "model", "spec", "label"),
    [
        (
            "bytes",
            decoder(64),
            {"preprocess": {**TEXT, "max_tokens": 12, "stride": 8}},
            lambda _: None,
        ),
        (
            "spans",
            labeller(64, 2),
            {"loss": "token_classification", "classes": ["O", "PLACE"]},
            lambda text: ["PLACE" if word in PLACES else "O" for word in text.split()],
        ),
    ],
)
def test_a_job_that_is_paused_and_killed_ends_with_the_bytes_of_a_calm_one(
    served: Served, name: str, model: bytes, spec: dict[str, Any], label: Callable[[str], Any]
) -> None:
    register(served, name, model, **spec)
    assert send(served, name, TEXTS, [label(text) for text in TEXTS]).status_code == 201
    long = RECIPE | {"epochs": 90}  # a second, so that the job is paused before its end
    calm = served.train(name, **long, **{"from": "base"})

    job = served.ask_for_job(name, **long, **{"from": "base"})["id"]
    hasty = interrupted(served, job)

    assert hasty["metrics"]["validation"] == calm["metrics"]["validation"]
    assert hasty["metrics"]["validation"]["samples"] == 15
    version = served.http.get(f"/v1/models/{name}/versions/{calm['version']}").json()
    assert version["verdict"]["validation"]["samples"] == 15
    told = {what: version["provenance"][f"{what}_samples"] for what in ("train", "validation")}
    assert told == {"train": 45, "validation": 15}
    compared = served.http.get(f"/v1/models/{name}/versions/1/comparison/2").json()
    assert compared["samples"] == 15
    assert weights_of(served, calm) == weights_of(served, hasty)


def test_adapters_of_a_decoder_learn_texts(served: Served) -> None:
    lora = {"lora": {"rank": 4, "alpha": 16, "targets": ["layer.*", "head.weight"]}}
    model = register(served, "adapted", decoder(64), trainable=[lora])
    send(served, "adapted", TEXTS)

    job = served.train("adapted", **RECIPE | {"epochs": 20})

    assert model["parameters"]["trainable"] < model["parameters"]["frozen"] * 2
    before, after = job["metrics"]["baseline"], job["metrics"]["validation"]
    assert after["perplexity"] < 0.5 * before["perplexity"]


def test_a_class_of_a_text_or_of_a_pair_is_learned_by_cross_entropy(served: Served) -> None:
    texts = [f"{WORDS[n % 3]} {n}" for n in range(60)]
    labels = [["cat", "dog", "bird"][n % 3] for n in range(60)]
    classes = ["cat", "dog", "bird"]
    register(served, "topic", classifier(64, 3), loss="cross_entropy", classes=classes)
    assert send(served, "topic", texts, labels).status_code == 201
    job = served.train("topic", **RECIPE | {"epochs": 15})
    assert job["metrics"]["validation"]["accuracy"] == 1.0

    pairs = [f"{WORDS[n % 3]}\x1f{WORDS[(n // 3) % 3]}" + f" {n}" for n in range(90)]
    same = ["same" if n % 3 == (n // 3) % 3 else "other" for n in range(90)]
    register(
        *(served, "pairs", classifier(64, 2, pairs=True), tokenizer(TEXTS, pairs=True)),
        loss="cross_entropy",
        classes=["same", "other"],
        preprocess={"kind": "text", "max_tokens": 40, "pairs": True},
    )
    assert send(served, "pairs", pairs, same).status_code == 201
    assert send(served, "pairs", ["one alone"], ["same"]).status_code == 422
    job = served.train("pairs", **RECIPE | {"epochs": 3})
    assert job["state"] == "succeeded"


def test_the_head_of_a_frozen_encoder_is_learned_from_features(served: Served) -> None:
    texts = [f"{WORDS[n % 3]} {n}" for n in range(60)]
    labels = [["cat", "dog", "bird"][n % 3] for n in range(60)]
    model = register(
        *(served, "frozen", classifier(64, 3, width=64)),
        loss="cross_entropy",
        classes=["cat", "dog", "bird"],
        trainable=["head"],
    )
    assert any("cut at" in note for note in model["notes"]), model["notes"]
    send(served, "frozen", texts, labels)
    job = served.train("frozen", head={"kind": "prototype"})
    assert job["metrics"]["validation"]["accuracy"] > 0.9


def test_drift_of_texts_is_measured_whatever_their_length(served: Served) -> None:
    register(served, "drift", decoder(64), gate={"hold_on_drift": True})
    send(served, "drift", TEXTS)
    served.train("drift", **RECIPE | {"epochs": 1})
    send(served, "drift", [f"{text} {WORDS[0]}" for text in TEXTS])
    second = served.train("drift", **RECIPE | {"epochs": 1, "seed": 2})
    version = served.http.get(f"/v1/models/drift/versions/{second['version']}").json()
    assert version["verdict"]["drift"]["samples"] >= 30


def test_masked_tokens_are_learned_by_a_tokenizer_that_has_a_mask(served: Served) -> None:
    files = {"model": ("m.onnx", decoder(64)), "tokenizer": ("t.json", tokenizer(TEXTS))}
    spec = {"name": "masked", "loss": "masked_lm", "preprocess": TEXT}
    refused = served.http.post("/v1/models", data={"spec": json.dumps(spec)}, files=files)
    assert refused.status_code == 422
    assert "masked_lm hides tokens by [MASK]" in refused.json()["errors"][0]["detail"]

    register(served, "masked", decoder(64), tokenizer(TEXTS, mask=True), loss="masked_lm")
    send(served, "masked", TEXTS)
    job = served.train("masked", **RECIPE | {"epochs": 12})
    before, after = job["metrics"]["baseline"], job["metrics"]["validation"]
    assert after["perplexity"] < 0.6 * before["perplexity"]
