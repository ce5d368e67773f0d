"""Texts come in every form, are stored as they were sent, found by a part, and refused by place."""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

import pytest
from support import Served, mlp
from texts import classifier, decoder, tokenizer

WORDS = ("good morning", "Straße frei?", "see you at eight", "不要紧 🙂")
JSONL, PLAIN, CSV = "application/jsonl", "text/plain", "text/csv"


def register(served: Served, name: str, *, pairs: bool = False) -> str:
    files = {
        "model": ("m.onnx", classifier(64, 2, pairs=pairs)),
        "tokenizer": ("tokenizer.json", tokenizer(WORDS, pairs=pairs)),
    }
    spec = {"name": name, "loss": "cross_entropy", "classes": ["no", "yes"]}
    spec["preprocess"] = {"kind": "text", "max_tokens": 16, "pairs": pairs}
    answer = served.http.post("/v1/models", data={"spec": json.dumps(spec)}, files=files)
    assert answer.status_code == 201, answer.text
    return f"/v1/models/{name}/samples"


@pytest.fixture(scope="module")
def path(served: Served) -> str:
    return register(served, "single")


@pytest.fixture(scope="module")
def pairs(served: Served) -> str:
    return register(served, "pairs", pairs=True)


def post(served: Served, path: str, content: str | bytes, kind: str, **params: Any) -> Any:
    data = content.encode() if isinstance(content, str) else content
    return served.http.post(path, content=data, params=params, headers={"Content-Type": kind})


def stored(served: Served, path: str, answer: Any) -> list[tuple[str, Any]]:
    """Text and label of the samples of an upload."""
    assert answer.status_code == 201, answer.text
    first, last = answer.json()["ids"]
    found = []
    for at in range(first, last + 1):
        content = served.http.get(f"{path}/{at}/content")
        assert content.headers["content-type"] == "text/plain; charset=utf-8"
        found.append((content.content.decode(), served.http.get(f"{path}/{at}").json()["label"]))
    return found


def test_each_form_brings_texts_as_they_were_written(served: Served, path: str) -> None:
    plain = post(served, path, f"{WORDS[3]}\r\n ", PLAIN, label="yes", weight=2)
    assert stored(served, path, plain) == [(f"{WORDS[3]}\r\n ", 1)]
    one = served.http.post(path, json={"text": WORDS[0], "label": "no", "key": "k"})
    assert stored(served, path, one) == [(WORDS[0], 0)]
    two = served.http.post(path, json={"samples": [{"text": "a"}, {"text": "b", "label": 1}]})
    assert stored(served, path, two) == [("a", None), ("b", 1)]
    lines = f'\n{{"text": "{WORDS[1]}", "label": "yes"}}\n{{"text": "\\u00e9t\\u00e9"}}'
    assert stored(served, path, post(served, path, lines, JSONL)) == [(WORDS[1], 1), ("été", None)]
    table = 'key,text,label\nc1,"one, ""two""\nthree",yes\nc2, spaced ,\n'
    assert stored(served, path, post(served, path, table, CSV)) == [
        ('one, "two"\nthree', 1),
        (" spaced ", None),
    ]
    files = [("file", (f"{n}.txt", f"file {n}".encode(), "text/plain")) for n in range(2)]
    form = served.http.post(path, files=files, data={"samples": '[{"label": 1}, {}]'})
    assert stored(served, path, form) == [("file 0", 1), ("file 1", None)]
    line = post(served, path, '{"text": "of another name"}', "application/x-ndjson")
    assert stored(served, path, line) == [("of another name", None)]
    marked = post(served, path, b"\xef\xbb\xbfof an editor", PLAIN)
    assert stored(served, path, marked) == [("of an editor", None)]


def test_pairs_are_two_texts_in_json_lines_and_columns(served: Served, pairs: str) -> None:
    sample = {"text": "is it late", "text_pair": "it is eight", "label": "yes"}
    one = served.http.post(pairs, json=sample)
    assert stored(served, pairs, one) == [("is it late\x1fit is eight", 1)]
    table = "text_pair,label,text\nsecond,0,first\n"
    assert stored(served, pairs, post(served, pairs, table, CSV)) == [("first\x1fsecond", 0)]
    assert post(served, pairs, "first\x1fsecond", PLAIN).json()["duplicates"] == 1
    alone = served.http.post(pairs, json={"text": "first"}).json()
    assert alone["errors"] == [
        {"pointer": "/text_pair", "detail": "text_pair is missing, or no text"}
    ]
    half = served.http.post(pairs, json={"text": "first", "text_pair": " "}).json()
    assert half["errors"][0]["detail"].startswith("text_pair is empty")


@pytest.mark.parametrize(
    ("content", "kind", "pointer", "detail"),
    [
        (b"abc\xffd", PLAIN, "/files/0", "byte 3 is not UTF-8 (0xff)"),
        (b" \n", PLAIN, "/files/0", "it is empty"),
        (b"x" * (2**20 + 1), PLAIN, "/files/0", "at most 1048576 bytes"),
        (b'{"text": "a"}\n{"text": "\xc3("}', JSONL, "/2", "line 2: byte 10 is not UTF-8 (0xc3)"),
        (b'{"text": "a"}\n{"text": ', JSONL, "/2", "line 2 is not JSON"),
        (b'{"text": "a", "label": "cow"}', JSONL, "/1/label", "line 1: label 'cow' is not one"),
        (b'{"text": 3}', JSONL, "/1/text", "text is missing, or no text"),
        (b'{"text": "a", "inputs": {}}', JSONL, "/1/inputs", "unknown field 'inputs'"),
        (b'{"text": "a", "spans": []}', JSONL, "/1/spans", "unknown field 'spans'"),
        (b'{"text": "a\\u001fb"}', JSONL, "/1/text", "the model takes one text"),
        (b"\n \n", JSONL, "", "send at least one line"),
        (b"text,label\n,yes\n", CSV, "/2", "line 2: it is empty"),
        (b"words,label\na,yes\n", CSV, "/1", "the header lacks ['text']"),
        (b"text,more\na,b\n", CSV, "/1", "too many columns: ['more']"),
        (b"text\na\xff\n", CSV, "/1", "is not UTF-8: byte 6 of the file"),
        (b"\xef\xbb\xbftext\n" + b"a\n" * 9000 + b"\xff", CSV, "/", "UTF-8: byte 18008 of"),
    ],
)
def test_what_is_no_text_is_refused_by_its_place_and_nothing_is_stored(
    served: Served, path: str, *, content: bytes, kind: str, pointer: str, detail: str
) -> None:
    before = served.http.get(f"{path}/stats").json()
    answer = post(served, path, content, kind)
    assert answer.status_code == 422, answer.text
    (error,) = answer.json()["errors"]
    assert error["pointer"].startswith(pointer)
    assert detail in error["detail"]
    assert "PATCH features" not in error["detail"]
    assert served.http.get(f"{path}/stats").json() == before


def test_bad_lines_are_left_out_if_asked(served: Served, path: str) -> None:
    lines = '{"text": "kept one"}\nnonsense\n{"text": "kept two"}\n'
    answer = post(served, path, lines, JSONL, on_error="skip").json()
    assert (answer["accepted"], answer["rejected"]) == (2, 1)
    assert [error["pointer"] for error in answer["errors"]] == ["/2"]


def test_lists_find_texts_by_a_part_in_any_case(served: Served, path: str) -> None:
    lines = "".join(f'{{"text": "Number {n} of MANY", "key": "n{n}"}}\n' for n in range(1200))
    assert post(served, path, lines, JSONL).json()["accepted"] == 1200
    found, params = [], {"text": "9 OF many", "limit": 50}
    while params is not None:
        page = served.http.get(path, params=params).json()
        found += [entry["key"] for entry in page["items"]]
        params = page["next"] and {**params, "cursor": page["next"]}
    assert found == [f"n{n}" for n in range(1200) if n % 10 == 9]
    served.http.post(path, json={"text": "Große Straße", "label": "yes"}).raise_for_status()
    only = served.http.get(path, params={"text": "GROSSE STRASSE", "label": "yes"}).json()["items"]
    assert len(only) == 1
    assert served.http.get(path, params={"text": "strasse", "split": "base"}).json()["items"] == []
    wrong = served.http.get(path, params={"text": "a", "order": "uncertainty"})
    assert wrong.json()["errors"][0]["pointer"] == "/query/order"


def test_texts_are_duplicates_by_content_get_labels_late_and_go_for_good(served: Served) -> None:
    path = register(served, "life")
    first = served.http.post(path, json={"text": "secret words"}).json()
    again = post(served, path, '{"text": "secret words", "label": "yes"}', JSONL).json()
    assert (again["accepted"], again["duplicates"]) == (0, 1)
    sample = f"{path}/{first['ids'][0]}"
    assert served.http.get(sample).json()["label"] == 1
    assert served.http.patch(sample, json={"label": "no"}).json()["label"] == 0
    archive = served.http.get(f"{path}/archive").content
    assert zipfile.ZipFile(io.BytesIO(archive)).read("data/000000.bin") == b"secret words"
    copied = register(served, "copied")
    taken = post(served, f"{copied}/archive", archive, "application/zip")
    assert stored(served, copied, taken) == [("secret words", 0)]
    assert served.http.delete(sample).status_code == 204
    packs = (served.data_dir / "packs").rglob("*.pack")
    life = served.http.get(path, params={"text": "secret"}).json()["items"]
    assert life == []
    assert sum(b"secret words" in pack.read_bytes() for pack in packs) == 1  # the copy's


def test_texts_are_deleted_by_a_part_with_the_other_conditions(served: Served) -> None:
    path = register(served, "parts")
    kinds = ("Call MUM", "call the bank", "buy bread")
    lines = "".join(
        json.dumps({"text": f"{kinds[n % 3]} {n}", "label": n % 2}) + "\n" for n in range(3000)
    )
    assert post(served, path, lines, JSONL).json()["accepted"] == 3000
    gone = served.http.delete(path, params={"text": "call mum", "label": "yes"})
    assert gone.json()["deleted"] == 500
    assert served.http.delete(path, params={"text": "CALL"}).json()["deleted"] == 1500
    left = served.http.get(f"{path}/stats").json()
    assert left["train"] + left["validation"] == 1000
    assert served.http.get(path, params={"text": "bread"}).json()["items"] != []
    packs = [*(served.data_dir / "packs").rglob("*.pack")]
    assert not any(b"Call MUM 3" in pack.read_bytes() for pack in packs)
    assert served.http.delete(path, params={"text": "mum"}).json()["deleted"] == 0


def test_samples_that_are_no_texts_are_not_deleted_by_text(served: Served) -> None:
    served.register("numbers", mlp(2, 4, 2))
    answer = served.http.delete("/v1/models/numbers/samples", params={"text": "a"})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "/query/text"


def test_a_model_of_tensors_takes_json_lines_too_and_no_texts(served: Served) -> None:
    served.register("tensors", mlp(2, 2))
    path = "/v1/models/tensors/samples"
    lines = '{"inputs": {"x": [1, 2]}, "label": 0}\n{"inputs": {"x": [3, 4]}, "weight": 2}\n'
    assert post(served, path, lines, JSONL).json()["accepted"] == 2
    wrong = post(served, path, '{"inputs": {"x": [1]}}', JSONL).json()["errors"]
    assert [each["pointer"] for each in wrong] == ["/1/inputs/x"]
    assert post(served, path, '{"text": "a"}', JSONL).status_code == 422
    assert post(served, path, "a", PLAIN).status_code == 415
    no_text = served.http.get(path, params={"text": "a"}).json()
    assert no_text["errors"][0]["pointer"] == "/query/text"


def test_texts_without_labels_wait_for_none_where_the_loss_takes_none(served: Served) -> None:
    files = {
        "model": ("m.onnx", decoder(64)),
        "tokenizer": ("tokenizer.json", tokenizer(WORDS)),
    }
    about = {"name": "lm", "loss": "causal_lm", "preprocess": {"kind": "text", "max_tokens": 32}}
    spec = json.dumps(about)
    assert served.http.post("/v1/models", data={"spec": spec}, files=files).status_code == 201
    path = "/v1/models/lm/samples"
    lines = "".join(json.dumps({"text": each}) + "\n" for each in WORDS)
    assert post(served, path, lines, JSONL).json()["accepted"] == 4
    counts = served.http.get("/v1/models/lm").json()["samples"]
    assert counts["unlabelled"] == 0
    wrong = post(served, path, '{"text": "a", "label": 3}', JSONL).json()["errors"]
    assert [each["pointer"] for each in wrong] == ["/1/label"]
