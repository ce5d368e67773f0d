"""Federated rounds of texts: devices with different tokenizers never aggregate."""

from __future__ import annotations

import json

import pytest
from federated import Device
from support import Served
from texts import decoder, tokenizer

TEXTS = [f"the cat sat on mat {n} and a dog ran" for n in range(60)]


@pytest.fixture(scope="module")
def device(served: Served) -> Device:
    files = {"model": ("m.onnx", decoder(64)), "tokenizer": ("t.json", tokenizer(TEXTS))}
    spec = {"name": "round", "loss": "causal_lm", "preprocess": {"kind": "text", "max_tokens": 24}}
    served.http.post("/v1/models", data={"spec": json.dumps(spec)}, files=files).raise_for_status()
    sent = [("file", (f"{n}.txt", text, "text/plain")) for n, text in enumerate(TEXTS)]
    served.http.post("/v1/models/round/samples", files=sent).raise_for_status()
    made = Device(served, "round")
    made.allow()
    return made


def test_a_round_for_another_tokenizer_is_refused(device: Device) -> None:
    sent = device.parameters()
    for other in ({}, {"tokenizer_sha256": "0" * 64}):
        refused = device.ask(sent, **other)
        assert refused.status_code == 422
        (error,) = refused.json()["errors"]
        assert error["pointer"] == "/spec/tokenizer_sha256"
    assert device.http.get("/v1/jobs").json()["items"] == []


def test_a_round_for_the_same_tokenizer_learns_texts(device: Device) -> None:
    sha256 = device.http.get(f"{device.path}/tokenizer.json").headers["etag"].strip('"')
    shown = device.round(device.parameters(), epochs=2, tokenizer_sha256=sha256)
    assert shown["state"] == "succeeded", shown
    metrics = shown["metrics"]
    assert metrics["validation"]["perplexity"] < metrics["baseline"]["perplexity"]
