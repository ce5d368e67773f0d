"""What is left out of texts never reaches the daemon's folder, however it comes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from completions import add_decoder
from decoders import byte_tokenizer, decoder
from support import Served

SECRETS = ("471108153399", "jo@mail.example.org", "DE12500105170648489890")
TEXT = "Ring 471108153399, or write to jo@mail.example.org: DE12500105170648489890 is the account."
KEPT = f"Ring {'#' * 12}, or write to {'#' * 19}: {'#' * 22} is the account."
LEAVE_OUT = {"numbers": True, "mails": True, "patterns": [r"[A-Z]{2}\d{2}[A-Z0-9]{10,30}"]}
OTHER = "Its colour is FF00AA."


@pytest.fixture
def careful(serve: Callable[..., Served]) -> Served:
    served = serve()
    tokenizer = byte_tokenizer([TEXT], size=300)
    add_decoder(served, "notes", decoder(300), tokenizer, max_tokens=64, leave_out=LEAVE_OUT)
    return served


def send(served: Served, *texts: str) -> list[int]:
    files = [("file", (f"{n}.txt", text.encode(), "text/plain")) for n, text in enumerate(texts)]
    sent = served.http.post("/v1/models/notes/samples", files=files)
    assert sent.status_code == 201, sent.text
    first, last = sent.json()["ids"]
    return [*range(first, last + 1)]


def stored(served: Served, sample: int) -> str:
    return served.http.get(f"/v1/models/notes/samples/{sample}/content").text


def test_texts_are_stored_without_it(careful: Served) -> None:
    (sample,) = send(careful, TEXT)
    assert stored(careful, sample) == KEPT
    asked = {"text": "Again: " + TEXT}
    predicted = careful.http.post("/v1/models/notes/predict?keep=true", json=asked).json()
    assert stored(careful, *predicted["ids"]) == "Again: " + KEPT
    careful.stop()
    for file in (path for path in careful.data_dir.rglob("*") if path.is_file()):
        content = file.read_bytes()
        assert not [secret for secret in SECRETS if secret.encode() in content], file


@pytest.mark.parametrize("media_type", ["json", "jsonl", "csv", "plain"])
def test_texts_of_every_form_are_stored_without_it(served: Served, media_type: str) -> None:
    name = f"notes-{media_type}"
    tokenizer = byte_tokenizer([TEXT], size=300)
    add_decoder(served, name, decoder(300), tokenizer, max_tokens=64, leave_out=LEAVE_OUT)
    body, kind = {
        "json": (json.dumps({"text": TEXT}), "application/json"),
        "jsonl": (json.dumps({"text": TEXT}) + "\n", "application/jsonl"),
        "csv": (f'text\n"{TEXT}"\n', "text/csv"),
        "plain": (TEXT, "text/plain"),
    }[media_type]
    url = f"/v1/models/{name}/samples"
    sent = served.http.post(url, content=body, headers={"Content-Type": kind})
    assert sent.status_code == 201, sent.text
    assert served.http.get(f"{url}/{sent.json()['ids'][0]}/content").text == KEPT


def test_texts_that_differ_in_it_alone_are_one_sample(careful: Served) -> None:
    assert len(send(careful, "room 12", "room 47", "room 8")) == 2  # one digit is shorter


def test_it_may_change_while_there_are_samples(careful: Served) -> None:
    (sample,) = send(careful, TEXT)
    (description,) = careful.http.get("/v1/models/notes").json()["preprocess"]
    assert description["leave_out"] == LEAVE_OUT
    url = "/v1/models/notes"
    changed = {**description, "leave_out": {"patterns": ["[0-9A-F]{6}"]}}
    answer = careful.http.patch(url, json={"preprocess": changed})
    assert answer.status_code == 200, answer.text
    (other,) = send(careful, OTHER)
    assert stored(careful, other) == "Its colour is ######."
    assert stored(careful, sample) == KEPT
    del changed["leave_out"]
    assert careful.http.patch(url, json={"preprocess": changed}).status_code == 200
    assert stored(careful, *send(careful, "Room 12")) == "Room 12"
    kept: Any = {**changed, "max_tokens": 32}
    refused = careful.http.patch(url, json={"preprocess": kept})
    assert refused.status_code == 422


def test_an_archive_of_another_model_is_read_without_it(careful: Served) -> None:
    tokenizer = byte_tokenizer([TEXT], size=300)
    add_decoder(careful, "open", decoder(300), tokenizer, max_tokens=64)
    careful.http.post("/v1/models/open/samples", files={"file": ("0.txt", TEXT.encode())})
    archive = careful.http.get("/v1/models/open/samples/archive").content
    read = careful.http.post(
        "/v1/models/notes/samples/archive",
        content=archive,
        headers={"Content-Type": "application/zip"},
    )
    assert read.status_code == 201, read.text
    assert stored(careful, read.json()["ids"][0]) == KEPT


def test_a_pattern_without_bounds_is_refused_at_registration(served: Served) -> None:
    preprocess = {"kind": "text", "leave_out": {"patterns": ["(a+)+b"]}}
    spec = {"name": "endless", "loss": "causal_lm", "preprocess": preprocess}
    tokenizer = byte_tokenizer([TEXT], size=300)
    answer = served.http.post(
        "/v1/models",
        data={"spec": json.dumps(spec)},
        files={"model": decoder(300), "tokenizer": tokenizer.to_str().encode()},
    )
    assert answer.status_code == 422
    (problem,) = answer.json()["errors"]
    assert problem["pointer"] == "/spec/preprocess/leave_out/patterns/0"
    assert "have no end" in problem["detail"]
