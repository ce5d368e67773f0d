"""Federated rounds of texts: devices with different tokenizers never aggregate."""

from __future__ import annotations

import json

import pytest
from federated import Device, make_device
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
    made.allow(min_samples=1)
    return made


def test_a_round_for_another_tokenizer_is_refused(device: Device) -> None:
    sent = device.parameters()
    for other in ({}, {"tokenizer_sha256": "0" * 64}):
        refused = device.ask(sent, **other)
        assert refused.status_code == 422
        (error,) = refused.json()["errors"]
        assert error["pointer"] == "/spec/tokenizer_sha256"
    for ask in (device.send, device.measure):
        for other in ({}, {"tokenizer_sha256": "0" * 64}):
            refused = ask(sent, **other)
            assert refused.status_code == 422
            (error,) = refused.json()["errors"]
            assert error["pointer"] == "/query/tokenizer_sha256"
            assert "devices and server need one" in error["detail"]
    assert device.http.get("/v1/jobs").json()["items"] == []


def test_a_round_for_the_same_tokenizer_learns_texts(device: Device) -> None:
    sha256 = device.http.get(f"{device.path}/tokenizer.json").headers["etag"].strip('"')
    shown = device.round(device.parameters(), epochs=2, tokenizer_sha256=sha256)
    assert shown["state"] == "succeeded", shown
    metrics = shown["metrics"]
    assert metrics["validation"]["perplexity"] < metrics["baseline"]["perplexity"]
    measured = device.measure(device.parameters(), tokenizer_sha256=sha256).json()["metrics"]
    assert measured["perplexity"] == pytest.approx(metrics["baseline"]["perplexity"])
    taken = device.send(device.parameters(), tokenizer_sha256=sha256)
    assert taken.status_code == 202, taken.text
    assert device.served.wait_for_job(taken.json()["id"])["state"] == "succeeded"


def test_parameters_of_a_model_without_a_tokenizer_name_none(served: Served) -> None:
    plain = make_device(served, "plain")
    refused = plain.send(plain.parameters(), tokenizer_sha256="0" * 64)
    assert refused.status_code == 422
    assert "'plain' has no tokenizer: leave it out" in refused.json()["errors"][0]["detail"]
