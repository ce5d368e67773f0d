"""Models of texts are registered with their tokenizer, and refused by name with a bad one."""

from __future__ import annotations

import json
from typing import Any

import onnx
import pytest
from decoders import decoder as with_places
from support import Served, mlp
from texts import classifier, decoder, labeller, tokenizer

TEXTS = ["the cat sat on the mat", "a dog ran in the park"] * 5
TOKENIZER = tokenizer(TEXTS)
TEXT = {"kind": "text", "max_tokens": 32}


def ask(
    served: Served,
    model: bytes,
    tokenizer: bytes | None = TOKENIZER,
    *,
    path: str = "/v1/models",
    **spec: Any,
) -> Any:
    files = {"model": ("m.onnx", model)}
    if tokenizer is not None:
        files["tokenizer"] = ("tokenizer.json", tokenizer)
    said = {"name": "words", "loss": "causal_lm", "preprocess": TEXT, **spec}
    return served.http.post(path, data={"spec": json.dumps(said)}, files=files)


@pytest.fixture(autouse=True)
def _alone(cleared: None) -> None:
    """Each test registers the same name."""


def test_the_tokenizer_belongs_to_the_model(served: Served) -> None:
    model = ask(served, decoder(64))

    assert model.status_code == 201, model.text
    (described,) = model.json()["preprocess"]
    assert described["input"] == "input_ids"
    assert described["attention_mask"] == "attention_mask"
    assert described["token_type_ids"] is None
    assert described["padding"] == "batch"
    assert described["vocabulary"] <= 64
    fetched = served.http.get("/v1/models/words/tokenizer.json")
    assert fetched.content == TOKENIZER
    assert fetched.headers["etag"] == f'"{described["tokenizer"]}"'
    again = served.http.get(
        "/v1/models/words/tokenizer.json", headers={"If-None-Match": fetched.headers["etag"]}
    )
    assert again.status_code == 304


def test_a_fixed_length_is_padded_to(served: Served) -> None:
    model = ask(
        served, classifier(64, 3, tokens=20), loss="cross_entropy", preprocess={"kind": "text"}
    )

    assert model.status_code == 201, model.text
    (described,) = model.json()["preprocess"]
    assert (described["max_tokens"], described["padding"]) == (20, "max")
    other = {"kind": "text", "max_tokens": 30}
    refused = ask(
        served, classifier(64, 3, tokens=20), name="other", preprocess=other, loss="cross_entropy"
    )
    assert refused.json()["errors"][0]["pointer"] == "/spec/preprocess/max_tokens"
    wished = {"kind": "text", "padding": "batch"}
    refused = ask(
        served, classifier(64, 3, tokens=20), name="other", preprocess=wished, loss="cross_entropy"
    )
    assert refused.json()["errors"][0]["pointer"] == "/spec/preprocess/padding"


@pytest.mark.parametrize("positions", [2, 20, 48])
def test_texts_are_as_long_as_the_positions_unless_somebody_says_how_long(
    served: Served, positions: int
) -> None:
    model = ask(served, decoder(64, positions=positions), preprocess={"kind": "text"})
    assert model.status_code == 201, model.text
    assert model.json()["preprocess"][0]["max_tokens"] == positions
    assert f"texts have at most {positions} tokens" in " ".join(model.json()["notes"])
    longer = {"kind": "text", "max_tokens": positions + 1}
    refused = ask(served, decoder(64, positions=positions), name="longer", preprocess=longer)
    assert refused.status_code == 422
    fed = with_places(64, positions=positions + 1, mask=True, places="position_ids")
    by_places = ask(served, fed, name="fed", preprocess={"kind": "text"})
    assert by_places.json()["preprocess"][0]["max_tokens"] == positions + 1
    far = ask(served, decoder(64, positions=200), name="far", preprocess={"kind": "text"})
    assert far.json()["preprocess"][0]["max_tokens"] == 128


def test_a_model_of_token_ids_is_told_how_it_takes_texts(served: Served) -> None:
    hint = 'for texts instead of the ids in "input_ids", register it with spec.preprocess'
    spec = {"tokenizer": None, "loss": "cross_entropy", "preprocess": []}
    refused = ask(served, classifier(64, 3), **spec)
    assert refused.status_code == 422
    assert all(hint in error["detail"] for error in refused.json()["errors"])
    fixed = classifier(64, 3, tokens=20)
    registered = ask(served, fixed, **spec).json()
    assert [note for note in registered["notes"] if hint in note] != []
    found = served.http.post("/v1/diagnosis", files={"model": ("m.onnx", fixed)}).json()
    assert found["suggested"]["preprocess"] == [{"kind": "text"}]
    described = {"loss": "cross_entropy", "preprocess": {"kind": "text"}}
    of_texts = ask(served, fixed, name="texts", **described).json()
    assert [note for note in of_texts["notes"] if hint in note] == []
    numbers = served.http.post("/v1/diagnosis", files={"model": ("m.onnx", mlp(4, 2))}).json()
    assert numbers["suggested"]["preprocess"] == []


@pytest.mark.parametrize(
    ("model", "loss"),
    [
        (decoder(64), "causal_lm"),
        (decoder(64, tokens=20), "causal_lm"),
        (labeller(64, 3), "token_classification"),
        (classifier(64, 3), "cross_entropy"),
    ],
    ids=["decoder", "decoder of one length", "labeller", "classifier"],
)
def test_the_loss_of_a_model_of_texts_is_suggested(served: Served, model: bytes, loss: str) -> None:
    diagnosis = served.http.post("/v1/diagnosis", files={"model": ("m.onnx", model)}).json()
    assert diagnosis["suggested"]["loss"] == diagnosis["loss"] == loss


def hostile(pattern: str) -> bytes:
    made = json.loads(TOKENIZER)
    made["pre_tokenizer"] = {
        "type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False,
    }  # fmt: skip
    return json.dumps(made).encode()


def larger(vocabulary: int) -> bytes:
    made = json.loads(TOKENIZER)
    made["added_tokens"].append(
        {"id": vocabulary - 1, "content": "<far>", "single_word": False, "lstrip": False,
         "rstrip": False, "normalized": False, "special": True}
    )  # fmt: skip
    made["model"]["vocab"]["<far>"] = vocabulary - 1
    return json.dumps(made).encode()


BAD = {
    "nothing": (b"", "/tokenizer", "this is no tokenizer.json"),
    "other": (b'{"model": 1}', "/tokenizer", "this is no tokenizer.json"),
    "cut": (TOKENIZER[:-20], "/tokenizer", "this is no tokenizer.json"),
    "pattern": (hostile("(a+)+$"), "/tokenizer", "does not tokenize a short text"),
    "larger": (
        larger(65),
        "/tokenizer",
        "has the ids below 65: it asks for row 64 of a table that has 64",
    ),
    "none": (None, "/tokenizer", "a model of texts needs its tokenizer.json"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_tokenizer_is_refused_and_nothing_is_stored(served: Served, name: str) -> None:
    content, pointer, detail = BAD[name]

    refused = ask(served, decoder(64), content)

    assert refused.status_code == 422, refused.text
    (error,) = refused.json()["errors"]
    assert error["pointer"] == pointer
    assert detail in error["detail"]
    assert served.http.get("/v1/models").json()["items"] == []


def test_what_does_not_fit_texts_is_named(served: Served) -> None:
    def pointers(model: bytes, **spec: Any) -> list[str]:
        refused = ask(served, model, **spec)
        assert refused.status_code == 422, refused.text
        return [error["pointer"] for error in refused.json()["errors"]]

    assert pointers(decoder(64), preprocess={**TEXT, "max_tokens": 65}) == [
        "/spec/preprocess/max_tokens"
    ]
    assert pointers(decoder(64), preprocess={**TEXT, "max_tokens": 0}) == [
        "/spec/preprocess/max_tokens"
    ]
    assert pointers(decoder(64), preprocess={**TEXT, "stride": 40}) == ["/spec/preprocess/stride"]
    assert pointers(decoder(64), preprocess={**TEXT, "stop": 1}) == ["/spec/preprocess/stop"]
    assert pointers(classifier(64, 3)) == ["/spec/loss"]
    assert pointers(decoder(64), preprocess=[]) == ["/tokenizer", "/spec/loss"]
    several = classifier(64, 3, pairs=True)
    assert pointers(several, preprocess={**TEXT, "attention_mask": "token_type_ids"}) == [
        "/spec/preprocess/token_type_ids"
    ]
    for loss in ("cross_entropy", "mse", "one_class"):
        refused = ask(served, labeller(64, 3), loss=loss)
        assert "a row for each token" in refused.json()["errors"][0]["detail"]
    # As PyTorch exports (ids, ids).
    blind = onnx.load_from_string(classifier(64, 3))
    next(node for node in blind.graph.node if node.op_type == "Gather").input[1] = "attention_mask"
    assert pointers(blind.SerializeToString(), loss="cross_entropy") == [
        "/model/graph/input/input_ids"
    ]
    bare = ask(served, decoder(64), None, preprocess=[], loss="cross_entropy")
    assert '{"kind": "text"}' in bare.json()["errors"][0]["detail"]


def test_the_tokenizer_may_not_change_once_the_model_is_registered(served: Served) -> None:
    assert ask(served, decoder(64)).status_code == 201
    url = "/v1/models/words"
    same = served.http.get(url).json()["preprocess"]
    assert served.http.patch(url, json={"preprocess": same}).status_code == 200
    other = [{**same[0], "tokenizer": "0" * 64}]
    refused = served.http.patch(url, json={"preprocess": other})
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["pointer"] == "/preprocess/tokenizer"
    stride = [{**same[0], "stride": 8}]
    assert served.http.patch(url, json={"preprocess": stride}).status_code == 200


def test_a_diagnosis_takes_the_tokenizer_too(served: Served) -> None:
    found = ask(served, decoder(64), path="/v1/diagnosis").json()
    assert found["ready"], found["problems"]
    found = ask(served, decoder(64), b"{}", path="/v1/diagnosis").json()
    assert not found["ready"]
    assert found["problems"][0]["pointer"] == "/tokenizer"
