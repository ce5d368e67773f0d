"""docs/export.md: each program writes a model that trains, where its library is installed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from programs import interpreter, printed
from support import Served

PAGE = (Path(__file__).parents[2] / "docs" / "export.md").read_text("utf-8")
PROGRAMS = re.findall(r"<!-- needs: ([\w ]+) -->\n```python\n(.*?)```", PAGE, re.DOTALL)

OF_TEXTS = "torch transformers tokenizers"
TEXTS = ["the cat sat on the mat", "a dog ran in the park", "the cat ran"] * 12


def test_the_page_has_a_program_for_each_library() -> None:
    needed = [needs for needs, _ in PROGRAMS]
    others = ["jax jax2onnx flax", "tensorflow tf2onnx", "sklearn skl2onnx"]
    assert needed == ["torch onnxscript", "torch", *[OF_TEXTS] * 3, *others]
    assert PAGE.count("```python") == len(PROGRAMS)


@pytest.mark.parametrize(("needed", "program"), [each for each in PROGRAMS if each[0] == OF_TEXTS])
def test_what_a_program_writes_learns_texts(
    serve: Callable[..., Served], needed: str, program: str, tmp_path: Path
) -> None:
    printed(interpreter(needed), "-W", "ignore", "-c", program, cwd=tmp_path)
    loss = "causal_lm" if "CausalLM" in program else "cross_entropy"
    files = [(tmp_path / name).read_bytes() for name in ("model.onnx", "tokenizer.json")]
    served = serve()
    spec = {"name": "texts", "loss": loss, "preprocess": {"kind": "text", "max_tokens": 16}}
    registered = served.http.post(
        "/v1/models",
        data={"spec": json.dumps(spec)},
        files=dict(zip(("model", "tokenizer"), [("f", file) for file in files], strict=True)),
    )
    assert registered.status_code == 201, registered.text
    assert registered.json()["preprocess"][0]["padding"] == "batch"
    about = [{} if loss == "causal_lm" else {"label": n % 3} for n in range(len(TEXTS))]
    sent = [("file", (f"{n}.txt", text, "text/plain")) for n, text in enumerate(TEXTS)]
    added = served.http.post(
        "/v1/models/texts/samples?allow_duplicates=true",
        files=sent,
        data={"samples": json.dumps(about)},
    )
    assert added.status_code == 201, added.text
    job = served.train("texts", max_steps=3)
    assert np.isfinite(job["metrics"]["train_loss"])
    if loss == "causal_lm":
        asked = {"text": "the cat", "max_tokens": 4}
        for version in (1, job["version"]):
            alias = served.http.put("/v1/models/texts/aliases/latest", json={"version": version})
            assert alias.is_success
            completed = served.http.post("/v1/models/texts/complete", json=asked)
            assert completed.json()["tokens"] == 4, completed.text
        assert "completion.no_cache" not in served.log.read_text()


def test_the_classifier_with_another_head_learns_spans(
    serve: Callable[..., Served], tmp_path: Path
) -> None:
    (program,) = (each for _, each in PROGRAMS if "ForSequenceClassification" in each)
    for old, new in (
        ("BertForSequenceClassification", "BertForTokenClassification"),
        ('"logits": {0: "batch"}', '"logits": axes'),
    ):
        assert old in program
        assert new in PAGE
        program = program.replace(old, new)
    printed(interpreter(OF_TEXTS), "-W", "ignore", "-c", program, cwd=tmp_path)
    files = {name: (tmp_path / name).read_bytes() for name in ("model.onnx", "tokenizer.json")}
    classes = ["O", "B-PER", "I-PER"]
    spec: dict[str, object] = {"name": "spans", "loss": "token_classification", "classes": classes}
    spec |= {"preprocess": {"kind": "text", "max_tokens": 16}, "gate": {"mode": "always"}}
    served = serve()
    registered = served.http.post(
        "/v1/models",
        data={"spec": json.dumps(spec)},
        files={"model": files["model.onnx"], "tokenizer": files["tokenizer.json"]},
    )
    assert registered.status_code == 201, registered.text
    samples = [
        {"text": f"{text} {n}", "label": ["O", "B-PER", *["O"] * (len(text.split()) - 1)]}
        for n, text in enumerate(TEXTS)
    ]
    added = served.http.post("/v1/models/spans/samples", json={"samples": samples})
    assert added.json()["accepted"] == len(TEXTS)
    job = served.train("spans", epochs=20, learning_rate=0.003)
    assert job["metrics"]["train_loss"] < 0.3
    answer = served.http.post("/v1/models/spans/predict", json={"text": "a cat ran"}).json()
    (found,) = answer["predictions"][0]["spans"]
    assert (found["start"], found["end"], found["label"]) == (2, 5, "PER")


@pytest.mark.parametrize(("needed", "program"), [each for each in PROGRAMS if each[0] != OF_TEXTS])
def test_what_a_program_writes_trains(
    serve: Callable[..., Served], needed: str, program: str, tmp_path: Path
) -> None:
    printed(interpreter(needed), "-W", "ignore", "-c", program, cwd=tmp_path)
    served, model = serve(), (tmp_path / "model.onnx").read_bytes()
    for name, trainable in (("whole", None), ("head", ["last:1"])):
        spec = {"trainable": trainable} if trainable else {}
        registered = served.register(name, model, **spec)
        shape = registered["inputs"][0]["shape"]
        generator = np.random.default_rng(0)
        image = generator.random((40, *shape), dtype=np.float32)
        added = served.upload(
            name, **{registered["inputs"][0]["name"]: image}, label=np.arange(40) % 10
        )
        assert added.status_code == 201, added.text
        job = served.train(name, max_steps=3)
        assert np.isfinite(job["metrics"]["train_loss"])
    counts = [
        served.http.get(f"/v1/models/{name}").json()["parameters"] for name in ("whole", "head")
    ]
    assert counts[0]["frozen"] == 0
    assert 0 < counts[1]["trainable"] < counts[0]["trainable"]
