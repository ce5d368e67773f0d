"""Next-token prediction over HTTP: texts in, a model of one's own words out."""

from __future__ import annotations

import json
from typing import Any

from support import Served
from texts import decoder, tokenizer

WORDS = ("the cat sat on the mat", "a dog ran in the park", "the bird sang in a tree")
TEXTS = [f"{WORDS[n % 3]} and {WORDS[(n + 1) % 3]} {n}" for n in range(60)]


def register(served: Served, name: str, model: bytes, **spec: Any) -> Any:
    files = {"model": ("m.onnx", model), "tokenizer": ("tokenizer.json", tokenizer(TEXTS))}
    said = {"name": name, "loss": "causal_lm", "preprocess": {"kind": "text", "max_tokens": 32}}
    return served.http.post("/v1/models", data={"spec": json.dumps({**said, **spec})}, files=files)


def send(served: Served, name: str, texts: list[str]) -> Any:
    about = [{"split": "validation" if n % 4 == 3 else "train"} for n in range(len(texts))]
    files = [("file", (f"{n}.txt", text.encode(), "text/plain")) for n, text in enumerate(texts)]
    url = f"/v1/models/{name}/samples"
    return served.http.post(url, files=files, data={"samples": json.dumps(about)})


def test_a_decoder_learns_texts_that_have_no_labels(served: Served) -> None:
    registered = register(served, "lm", decoder(64))
    assert registered.status_code == 201, registered.text
    sent = send(served, "lm", TEXTS)
    assert sent.status_code == 201, sent.text
    job = served.train("lm", epochs=15, batch_size=8, learning_rate=0.01, seed=1)
    before, after = job["metrics"]["baseline"], job["metrics"]["validation"]
    assert after["perplexity"] < 0.3 * before["perplexity"]
    version = served.http.get("/v1/models/lm/versions/2").json()
    assert version["promoted"], version["reason"]
