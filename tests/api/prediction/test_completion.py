"""Completion through a real daemon: suggested words and generated text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import onnxruntime
import pytest
from completions import add_decoder, events
from completions import ask_to_complete as ask
from decoders import bigrams, byte_tokenizer, decoder, word_tokenizer
from support import Served, mlp, wait_until

WORDS = ("see", "you", "later", "soon", ".", "your", "naïve")
SEE, YOU, LATER, SOON, DOT, YOUR, NAIVE = range(2, 9)
CHAIN = bigrams(
    {
        SEE: {YOU: 0.6, YOUR: 0.2, DOT: 0.2},
        YOU: {LATER: 0.7, SOON: 0.3},
        LATER: {SEE: 1.0},
        SOON: {0: 1.0},
    },
    len(WORDS) + 2,
)


def unused_caches(served: Served, model: str) -> list[str]:
    """Lines of the log that tell that a model's cache is not used."""
    lines = served.log.read_text().splitlines()
    return [line for line in lines if "completion.no_cache" in line and model in line]


@pytest.fixture(scope="module")
def chain(served: Served) -> str:
    add_decoder(served, "chain", CHAIN, word_tokenizer(WORDS), max_tokens=32)
    return "chain"


def test_words_are_suggested_with_their_probabilities(served: Served, chain: str) -> None:
    body = ask(served, chain, text="see you", suggestions=3).json()
    assert (body["model"], body["version"]) == (chain, 1)
    share = 0.6 / 0.8
    assert body["suggestions"] == [
        {"text": "later", "probability": pytest.approx(share * 0.7, abs=1e-6), "replaces": 0},
        {"text": "your", "probability": pytest.approx(0.25, abs=1e-6), "replaces": 3},
        {"text": "soon", "probability": pytest.approx(share * 0.3, abs=1e-6), "replaces": 0},
    ]


def test_text_is_generated(served: Served, chain: str) -> None:
    body = ask(served, chain, text="see", max_tokens=4, temperature=0).json()
    assert body == {
        "model": chain,
        "version": 1,
        "text": " you later see you",
        "tokens": 4,
        "finish_reason": "length",
    }
    stopped = ask(served, chain, text="see", temperature=0, stop="later").json()
    assert (stopped["text"], stopped["finish_reason"]) == (" you ", "stop")


def test_events_add_up_to_the_text(served: Served, chain: str) -> None:
    asked = {"text": "see", "max_tokens": 12, "seed": 3}
    whole = ask(served, chain, **asked).json()
    answer = ask(served, chain, **asked, stream=True)
    assert answer.headers["Content-Type"].startswith("text/event-stream")
    told = [*events(answer.text.splitlines())]
    assert "".join(each["text"] for each in told) == whole["text"]
    assert told[-1]["finish_reason"] == whole["finish_reason"]
    assert {each["finish_reason"] for each in told[:-1]} <= {None}


def test_openais_clients_get_their_form(served: Served, chain: str) -> None:
    asked = {"model": chain, "prompt": "see", "max_tokens": 4, "temperature": 0, "n": 1}
    body = served.http.post("/v1/completions", json=asked).json()
    assert (body["object"], body["model"]) == ("text_completion", chain)
    (choice,) = body["choices"]
    assert (choice["text"], choice["finish_reason"]) == (" you later see you", "length")
    unset = dict.fromkeys(("top_p", "stop", "seed", "stream", "echo", "best_of", "user", "n"))
    again = served.http.post("/v1/completions", json={**asked, **unset, "prompt": ["see"]}).json()
    assert again["choices"] == body["choices"]
    assert body["usage"] == {"prompt_tokens": 1, "completion_tokens": 4, "total_tokens": 5}
    answer = served.http.post("/v1/completions", json={**asked, "stream": True})
    assert answer.text.endswith("data: [DONE]\n\n")
    told = [*events(answer.text.splitlines())]
    assert "".join(each["choices"][0]["text"] for each in told) == choice["text"]


@pytest.mark.parametrize(
    ("body", "place", "words"),
    [
        ({}, "/text", "required"),
        ({"text": 3}, "/text", "string"),
        ({"text": "a", "suggestions": 0}, "/suggestions", "greater than or equal to 1"),
        ({"text": "a", "suggestions": 3, "seed": 1}, "/seed", "leave it out"),
        ({"text": "a", "max_tokens": 32}, "/max_tokens", "the model sees 32 tokens"),
        ({"text": "a", "temperature": -1}, "/temperature", "greater than or equal to 0"),
        ({"text": "a", "top_p": 0}, "/top_p", "greater than 0"),
        ({"text": "a", "top_k": 0}, "/top_k", "greater than or equal to 1"),
        ({"text": "a", "stop": ""}, "/stop", "at least 1 character"),
        ({"text": "a", "max_token": 3}, "/max_token", "did you mean max_tokens"),
    ],
)
def test_what_is_wrong_is_told_by_its_place(
    served: Served, chain: str, body: dict[str, Any], place: str, words: str
) -> None:
    answer = ask(served, chain, **body)
    assert answer.status_code == 422
    (problem,) = (error for error in answer.json()["errors"] if error["pointer"] == place)
    assert words in problem["detail"]


def test_options_that_openai_has_and_hone_has_not_are_refused(served: Served, chain: str) -> None:
    asked = {"model": chain, "prompt": "see", "logprobs": 3}
    answer = served.http.post("/v1/completions", json=asked)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "/logprobs"


def test_a_model_without_texts_says_what_to_register(served: Served) -> None:
    served.register("numbers", mlp(8, 16, 3))
    answer = ask(served, "numbers", text="see")
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_input")
    assert "register it with spec.preprocess of kind text" in answer.json()["detail"]
    assert ask(served, "nothing", text="see").status_code == 404


def test_a_decoder_with_a_cache_is_trained_and_completed_with_it(
    served: Served, tmp_path: Path
) -> None:
    """What is generated is what the version's own file computes, which has no cache."""
    lines = [f"see you later, see you {word}. " for word in ("soon", "there", "tomorrow", "again")]
    tokenizer = byte_tokenizer(lines, size=300)
    model = decoder(300, cached=True)
    registered = add_decoder(served, "cached", model, tokenizer, max_tokens=64)
    assert [value["name"] for value in registered["inputs"]] == ["input_ids"]
    assert any("cached keys and values" in note for note in registered["notes"])
    names = [("file", (f"{n}.txt", f"{n} {lines[n % 4]}".encode())) for n in range(40)]
    assert served.http.post("/v1/models/cached/samples", files=names).status_code == 201
    served.train("cached", epochs=3, learning_rate=0.01, ignore_policy=True)
    assert served.http.put("/v1/models/cached/aliases/latest", json={"version": 2}).is_success

    def version_now() -> int:
        body: dict[str, int] = ask(served, "cached", text="see", max_tokens=1).json()
        return body["version"]

    wait_until(lambda: version_now() == 2, "the trained version to answer")
    version = tmp_path / "version.onnx"
    version.write_bytes(served.http.get("/v1/models/cached/latest/model.onnx").content)
    session = onnxruntime.InferenceSession(version)
    assert [value.name for value in session.get_inputs()] == ["input_ids"]
    tokens = tokenizer.encode("see you").ids
    for _ in range(12):
        (logits,) = session.run(["logits"], {"input_ids": [tokens]})
        tokens.append(int(logits[0, -1].argmax()))
    asked = {"text": "see you", "max_tokens": 12, "temperature": 0}
    text = ask(served, "cached", **asked).json()["text"]
    assert "see you" + text == tokenizer.decode(tokens)

    assert not unused_caches(served, "cached")


def test_a_cache_that_computes_something_else_is_told_in_the_log(served: Served) -> None:
    """Each new token is put at position 0, as if there were no others."""
    tokenizer = byte_tokenizer(["see you soon"], size=300)
    wrong = onnx.load_model_from_string(decoder(300, cached=True))
    (places,) = (node for node in wrong.graph.node if node.name == "at")
    places.input[:2] = ["zero", "length"]
    for name, model in (("wrong", wrong.SerializeToString()), ("right", decoder(300))):
        add_decoder(served, name, model, tokenizer, max_tokens=64)
    asked = {"text": "see you", "max_tokens": 12, "temperature": 0}
    some, others = (ask(served, name, **asked).json()["text"] for name in ("wrong", "right"))
    assert some == others
    (line,) = unused_caches(served, "wrong")
    assert "does not compute what the version does" in line
