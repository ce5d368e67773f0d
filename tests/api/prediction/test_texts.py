"""Predictions of texts: classes of one, of several, of pairs, and what is wrong with them."""

from __future__ import annotations

import json
from typing import Any

import httpx
import numpy as np
import onnxruntime
import pytest
from support import Served
from texts import classifier, tokenizer
from tokenizers import Tokenizer

TEXTS = ["the cat sat on the mat", "a dog", "the bird sang in a tree and then it flew away"]
MODEL, PAIRS = classifier(64, 2), classifier(64, 2, pairs=True)
VOCABULARY, OF_PAIRS = tokenizer(TEXTS), tokenizer(TEXTS, pairs=True)


def register(served: Served, name: str, model: bytes, vocabulary: bytes, **text: Any) -> None:
    preprocess = {"kind": "text", "max_tokens": 32, **text}
    spec = {"name": name, "loss": "cross_entropy", "classes": ["bad", "good"]}
    answer = served.http.post(
        "/v1/models",
        data={"spec": json.dumps({**spec, "preprocess": preprocess})},
        files={"model": model, "tokenizer": vocabulary},
    )
    assert answer.status_code == 201, answer.text


def ask(served: Served, name: str, body: Any, **query: Any) -> httpx.Response:
    return served.http.post(f"/v1/models/{name}/predict", json=body, params=query)


def expected(model: bytes, vocabulary: bytes, text: str, pair: str | None = None) -> np.ndarray:
    """Probabilities of one text alone, without pads."""
    encoding = Tokenizer.from_str(vocabulary.decode()).encode(text, pair)
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    fed = {"input_ids": encoding.ids, "attention_mask": encoding.attention_mask}
    fed["token_type_ids"] = encoding.type_ids
    named = {i.name: np.array([fed[i.name]], np.int64) for i in session.get_inputs()}
    (logits,) = session.run(["logits"], named)
    powers = np.exp(logits[0] - logits.max())
    return powers / powers.sum()


@pytest.fixture(scope="module")
def moods(served: Served) -> str:
    register(served, "moods", MODEL, VOCABULARY)
    return "moods"


def test_a_text_has_a_class(served: Served, moods: str) -> None:
    body = ask(served, moods, {"text": TEXTS[0]}).json()
    (found,) = body["predictions"]
    probabilities = expected(MODEL, VOCABULARY, TEXTS[0])
    assert found["probabilities"] == pytest.approx(probabilities, abs=1e-5)
    assert found["label"] == body["classes"][probabilities.argmax()]


def test_texts_of_any_length_are_one_batch(served: Served, moods: str) -> None:
    """Pads change nothing."""
    body = {"instances": [{"text": text} for text in TEXTS]}
    for found, text in zip(ask(served, moods, body).json()["predictions"], TEXTS, strict=True):
        alone = expected(MODEL, VOCABULARY, text)
        assert found["probabilities"] == pytest.approx(alone, abs=1e-5)


def test_texts_may_be_the_rows_of_a_csv(served: Served, moods: str) -> None:
    path, headers = f"/v1/models/{moods}/predict", {"Content-Type": "text/csv"}
    rows = f'\ufefftext,label,id\r\n"{TEXTS[0]}",bad,7\r\n{TEXTS[1]},,8\r\n'
    answer = served.http.post(path, content=rows.encode(), headers=headers)
    for found, text in zip(answer.json()["predictions"], TEXTS[:2], strict=True):
        alone = expected(MODEL, VOCABULARY, text)
        assert found["probabilities"] == pytest.approx(alone, abs=1e-5)
    empty = served.http.post(path, content=b"text\na\n ' '\n\" \"\n", headers=headers)
    assert [error["pointer"] for error in empty.json()["errors"]] == ["/4"]


def test_a_text_may_be_the_body_and_is_checked_like_a_sample(served: Served, moods: str) -> None:
    path, headers = f"/v1/models/{moods}/predict", {"Content-Type": "text/plain"}
    kept = {"keep": "true"}
    body = served.http.post(path, content=TEXTS[1].encode(), params=kept, headers=headers).json()
    assert body["predictions"][0]["probabilities"] == pytest.approx(
        expected(MODEL, VOCABULARY, TEXTS[1]), abs=1e-5
    )
    content = served.http.get(f"/v1/models/{moods}/samples/{body['ids'][0]}/content")
    assert content.text == TEXTS[1]
    broken = served.http.post(path, content=b"ab\xff", headers=headers)
    assert broken.status_code == 422
    assert "byte 2 is not UTF-8" in broken.json()["errors"][0]["detail"]


@pytest.mark.parametrize("media_type", ["image/png", "audio/wav"])
def test_a_file_of_another_kind_is_no_text(served: Served, moods: str, media_type: str) -> None:
    for route in ("predict", "samples"):
        answer = served.http.post(
            f"/v1/models/{moods}/{route}", content=b"\x89PNG", headers={"Content-Type": media_type}
        )
        assert answer.status_code == 415, answer.text
        assert media_type not in answer.json()["detail"].partition("set Content-Type to")[2]
    assert ask(served, moods, {"text": TEXTS[0]}).status_code == 200


def test_a_pair_is_two_texts(served: Served) -> None:
    register(served, "pairs", PAIRS, OF_PAIRS, pairs=True)
    body = {"text": TEXTS[0], "text_pair": TEXTS[1]}
    (found,) = ask(served, "pairs", body).json()["predictions"]
    both = expected(PAIRS, OF_PAIRS, TEXTS[0], TEXTS[1])
    assert found["probabilities"] == pytest.approx(both, abs=1e-5)
    missing = ask(served, "pairs", {"text": TEXTS[0]})
    assert missing.json()["errors"][0]["pointer"] == "/text_pair"


def test_kept_texts_are_samples_that_wait_for_their_label(served: Served, moods: str) -> None:
    body = {"instances": [{"text": "keep this"}, {"text": "and that"}, {"text": "keep this"}]}
    ids = ask(served, moods, body, keep=True).json()["ids"]
    assert ids[0] == ids[2] != ids[1]
    url = f"/v1/models/{moods}/samples/{ids[1]}"
    assert served.http.get(f"{url}/content").text == "and that"
    assert served.http.patch(url, json={"label": "good"}).json()["label"] == 1


@pytest.mark.parametrize(
    ("body", "place", "words"),
    [
        ({"text": " "}, "/text", "empty"),
        ({"text": 3}, "/text", "no text"),
        ({}, "/text", "missing"),
        ({"instances": [{"text": "a"}, {"text": ""}]}, "/instances/1/text", "empty"),
        ({"instances": [{"text": "a", "pair": "b"}]}, "/instances/0/pair", '"text" alone'),
        ({"text": "a", "text_pair": "b"}, "/text_pair", '"text" alone'),
        ({"instances": ["a"]}, "/instances/0", "an object"),
        ({"text": "\ud800"}, "", "surrogate"),
    ],
)
def test_what_is_wrong_is_told_by_its_place(
    served: Served, moods: str, body: Any, place: str, words: str
) -> None:
    content = json.dumps(body)  # with the lone surrogate as an escape
    headers = {"Content-Type": "application/json"}
    url = f"/v1/models/{moods}/predict"
    answer = served.http.post(url, content=content, headers=headers)
    assert answer.status_code == 422, answer.text
    told = answer.json()
    listed = told.get("errors", [{"pointer": "", "detail": told["detail"]}])
    assert [each["pointer"] for each in listed] == [place]
    assert words in listed[0]["detail"]
