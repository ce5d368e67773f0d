"""Generation as it goes on: it ends with its client, and others get their turn meanwhile."""

from __future__ import annotations

import os
import signal
from typing import Any

import onnx
import pytest
from audit_entries import make_token
from completions import add_decoder, ask_to_complete, events
from decoders import decoder, word_tokenizer
from onnx import numpy_helper
from predictions import X, ask
from support import Served, mlp, wait_until

WORDS = [f"w{n}" for n in range(46)]
LONG = 1200
"""Tokens that take a minute without a cache: each is computed from all before it."""
SOON_S = 20.0
IDLE_S, BUSY_PERCENT = 0.5, 5


@pytest.fixture(scope="module")
def endless(served: Served) -> Served:
    """A daemon with a decoder that takes long to come to an end, and one other model."""
    model = decoder(48, width=128, layers=4, positions=LONG + 200)
    add_decoder(served, "endless", without_end(model), word_tokenizer(WORDS), max_tokens=LONG + 100)
    served.register("other", mlp(8, 16, 3))
    return served


def without_end(model: bytes) -> bytes:
    """Whose texts are never over: the end is as unlikely as can be."""
    proto = onnx.load_model_from_string(model)
    proto.graph.node[-1].output[0] = "scores"
    proto.graph.node.append(onnx.helper.make_node("Add", ["scores", "bias"], ["logits"]))
    bias = numpy_helper.to_array(proto.graph.initializer[0])[:, 0] * 0
    bias[0] = -1e9
    proto.graph.initializer.append(numpy_helper.from_array(bias, "bias"))
    return proto.SerializeToString()


def generating(served: Served, **asked: Any) -> Any:
    body = {"text": "w3 w4", "max_tokens": LONG, "stream": True, **asked}
    return served.http.stream("POST", "/v1/models/endless/complete", json=body)


def is_resting(served: Served) -> bool:
    """Whether no predictor works."""
    predictors = served.children("service.prediction")
    return all(predictor.cpu_percent(IDLE_S) < BUSY_PERCENT for predictor in predictors)


def test_it_ends_when_the_client_leaves(endless: Served) -> None:
    with generating(endless) as answer:
        told = events(answer.iter_lines())
        next(told)
        assert not is_resting(endless)
    wait_until(lambda: is_resting(endless), "the predictor to rest", deadline_s=SOON_S)


def test_it_ends_when_the_client_of_a_whole_text_leaves(endless: Served) -> None:
    body = {"text": "w3 w4", "max_tokens": LONG}
    with pytest.raises(Exception, match="timed out"):
        endless.http.post("/v1/models/endless/complete", json=body, timeout=2.0)
    wait_until(lambda: is_resting(endless), "the predictor to rest", deadline_s=SOON_S)


def test_other_models_answer_meanwhile(endless: Served) -> None:
    with generating(endless) as answer:
        told = events(answer.iter_lines())
        next(told)
        for _ in range(20):
            assert ask(endless, "other", X[0]).status_code == 200
        assert ask_to_complete(endless, "endless", text="w3", suggestions=3).status_code == 200
        assert next(told)["finish_reason"] is None


def test_a_predictor_that_dies_is_replaced_and_the_text_goes_on(endless: Served) -> None:
    asked = {"max_tokens": 200, "seed": 5}
    whole = ask_to_complete(endless, "endless", text="w3 w4", **asked).json()["text"]
    with generating(endless, **asked) as answer:
        told = events(answer.iter_lines())
        text = next(told)["text"]
        for predictor in endless.children("service.prediction"):
            os.kill(predictor.pid, signal.SIGKILL)
        text += "".join(each["text"] for each in told)
    assert text == whole


def test_a_token_needs_the_scope_and_the_model(endless: Served) -> None:
    def status(secret: str | None, path: str, **body: Any) -> int:
        headers = {"Authorization": f"Bearer {secret}"} if secret else {}
        return endless.tokenless.post(path, json=body, headers=headers).status_code

    openai = {"model": "endless", "prompt": "w3", "max_tokens": 2}
    mine, others, trains = (
        make_token(endless, f"completes {scope} {models}", scope, models=models)[0]
        for scope, models in (("predict", ["endless"]), ("predict", ["other"]), ("train", None))
    )
    for secret, expected in ((mine, 200), (others, 403), (trains, 403), (None, 401)):
        path = "/v1/models/endless/complete"
        assert status(secret, path, text="w3", max_tokens=2) == expected
        assert status(secret, "/v1/completions", **openai) == expected
    seldom = {"predictions_per_second": 0.01}
    few, _ = make_token(endless, "completes seldom", "predict", limits=seldom)
    assert [status(few, "/v1/completions", **openai) for _ in range(2)] == [200, 429]
