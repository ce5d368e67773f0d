"""Spans as labels: in every form, checked on arrival, and as they came in archives."""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

import pytest
from names import register, send
from support import Served, mlp

PER = {"start": 0, "end": 4, "label": "PER"}
LOC = {"start": 9, "end": 12, "label": "LOC"}
ANNA = "Anna saw \u00d6lo"
WRONG: dict[str, tuple[Any, str]] = {
    "beyond the text": ([PER, LOC | {"end": 13}], "span 1 ends at 13, and the text has 12 char"),
    "overlapping": ([LOC, PER, PER | {"start": 3, "end": 5}], "spans 1 and 2 overlap"),
    "twice": ([LOC, PER, PER], "spans 1 and 2 overlap"),
    "empty": ([PER | {"end": 0}], "span 0 goes from 0 to 0"),
    "before the text": ([PER | {"start": -1}], "span 0 goes from -1 to 4"),
    "a number that is none": ([PER | {"end": 4.0}], "span 0 has a start or an end that is no"),
    "of an unknown type": ([PER | {"label": "B-PER"}], "'B-PER', which is none of 'PER', 'LOC'"),
    "of a type that is none": ([PER | {"label": ["PER"]}], "which is none of 'PER', 'LOC'"),
    "with another field": ([PER | {"text": "Anna"}], "span 0 is no object of start, end, label"),
    "too few words": (["B-PER", "O"], "2 classes, and the text has 3 words"),
    "an unknown class of a word": (["PER", "O", "O"], "word 0 is 'PER', which is none of 'O'"),
    "words in a text": ("O O O O", "4 classes, and the text has 3 words"),
    "no word in a text": (" ", "0 classes, and the text has 3 words"),
    "a class of the text": (1, "send a list of"),
    "words and spans": (["O", PER], "span 0 is no object"),
    "JSON that is none": ("[{", "Expecting property name"),
}


@pytest.fixture(scope="module")
def refusing(served: Served) -> Served:
    assert register(served, "refusing").status_code == 201
    return served


@pytest.mark.parametrize("about", WRONG)
def test_a_wrong_label_is_told_by_place_and_nothing_is_stored(refusing: Served, about: str) -> None:
    label, expected = WRONG[about]
    path = "/v1/models/refusing/samples"
    bad = {"text": ANNA, "label": label}
    lines = [{"text": "Anna saw Bob", "label": [PER]}, bad]
    parts = [("file", (f"{n}.txt", line["text"], "text/plain")) for n, line in enumerate(lines)]
    forms = {
        "/samples/1/label": {"json": {"samples": lines}},
        "/2/label": {
            "content": "\n".join(map(json.dumps, lines)),
            "headers": {"Content-Type": "application/jsonl"},
        },
        "/files/1/label": {
            "files": parts,
            "data": {"samples": json.dumps([{"label": line["label"]} for line in lines])},
        },
    }
    for pointer, body in forms.items():
        answer = refusing.http.post(path, **body)
        assert answer.status_code == 422, answer.text
        (problem,) = answer.json()["errors"]
        assert problem["pointer"] == pointer
        assert expected in problem["detail"]
    assert labels(refusing, "refusing") == []


def test_spans_come_in_every_form_and_late_and_go_as_they_came(served: Served) -> None:
    register(served, "forms")
    path = "/v1/models/forms/samples"
    words = ["B-PER", "O", "B-LOC"]
    spans = [PER, LOC]
    texts = [f"{ANNA}{' ' * n}" for n in range(8)]
    send(served, "forms", [{"text": texts[0], "label": spans[::-1]}])
    send(served, "forms", [{"text": texts[1], "label": words}])
    plain = {"content": texts[2].encode(), "headers": {"Content-Type": "text/plain"}}
    served.http.post(path, params={"label": "B-PER O I-LOC"}, **plain)
    plain["content"] = texts[3].encode()
    served.http.post(path, params={"label": json.dumps(spans)}, **plain)
    csv = f'text,label\n"{texts[4]}",B-PER O I-LOC\n"{texts[5]}",{_quoted(json.dumps(spans))}\n'
    sent = served.http.post(path, content=csv.encode(), headers={"Content-Type": "text/csv"})
    assert sent.status_code == 201, sent.text
    send(served, "forms", [{"text": texts[6]}, {"text": texts[7], "label": []}])
    assert labels(served, "forms") == [*[spans] * 6, None, []]

    late = served.http.get(path, params={"unlabelled": True}).json()["items"][0]["id"]
    wrong = served.http.patch(f"{path}/{late}", json={"label": [PER | {"end": 99}]})
    assert wrong.status_code == 422
    assert wrong.json()["errors"][0]["pointer"] == "/label"
    assert served.http.patch(f"{path}/{late}", json={"label": words}).json()["label"] == spans
    assert served.http.patch(f"{path}/{late}", json={"label": None}).json()["label"] is None
    served.http.patch(f"{path}/{late}", json={"label": spans})

    archive = served.http.get(f"{path}/archive").content
    register(served, "again")
    back = _restore(served, "again", archive)
    assert back.status_code == 201, back.text
    assert labels(served, "again") == labels(served, "forms")
    files = dict(_members(archive))
    (lines,) = (name for name in files if name.startswith("samples/"))
    assert files[lines].count(b'"end":12') == 7
    files[lines] = files[lines].replace(b'"end":12', b'"end":99')
    register(served, "spoilt")
    refused = _restore(served, "spoilt", _zipped(files))
    assert refused.status_code == 422
    assert "ends at 99" in refused.json()["errors"][0]["detail"]
    assert labels(served, "spoilt") == []


def test_json_may_call_them_spans(served: Served) -> None:
    register(served, "called")
    served.register("counted", mlp(2, 3, 2))
    path = "/v1/models/called/samples"
    (sample,) = send(served, "called", [{"text": ANNA, "label": None, "spans": [PER]}]).json()[
        "ids"
    ][:1]
    line = json.dumps({"text": f"{ANNA} ", "spans": [PER, LOC]})
    jsonl = {"Content-Type": "application/jsonl"}
    assert served.http.post(path, content=line, headers=jsonl).status_code == 201
    assert labels(served, "called") == [[PER], [PER, LOC]]
    predicted = LOC | {"score": 0.9}
    late = served.http.patch(f"{path}/{sample}", json={"spans": [predicted]})
    assert late.json()["label"] == [LOC], late.text
    assert served.http.patch(f"{path}/{sample}", json={"spans": None}).json()["label"] is None
    wrong = {
        "beyond": send(served, "called", [{"text": "a", "spans": [PER]}]),
        "twice": send(served, "called", [{"text": ANNA, "label": [PER], "spans": [PER]}]),
        "late": served.http.patch(f"{path}/{sample}", json={"spans": [PER | {"end": 99}]}),
        "none": served.http.patch("/v1/models/counted/samples/1", json={"spans": [PER]}),
    }
    told = {
        name: [error["pointer"] for error in answer.json()["errors"]]
        for name, answer in wrong.items()
    }
    sent = "/samples/0/spans"
    assert told == {"beyond": [sent], "twice": [sent], "late": ["/spans"], "none": ["/spans"]}


def _quoted(cell: str) -> str:
    return '"' + cell.replace('"', '""') + '"'


def _restore(served: Served, name: str, archive: bytes) -> Any:
    headers = {"Content-Type": "application/zip"}
    path = f"/v1/models/{name}/samples/archive"
    return served.http.post(path, content=archive, headers=headers)


def _members(archive: bytes) -> list[tuple[str, bytes]]:
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        return [(name, opened.read(name)) for name in opened.namelist()]


def _zipped(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def test_what_is_left_out_of_a_text_keeps_the_places_of_its_spans(served: Served) -> None:
    register(served, "redacted", leave_out={"numbers": True, "patterns": ["Bob Lee"]})
    sent = send(served, "redacted", [{"text": "4711 saw Bob Lee", "label": "O O B-PER I-PER"}])
    assert sent.status_code == 201, sent.text
    (sample,) = served.http.get("/v1/models/redacted/samples").json()["items"]
    content = served.http.get(f"/v1/models/redacted/samples/{sample['id']}/content").text
    assert content == f"#### saw {'#' * 7}"
    assert sample["label"] == [{"start": 9, "end": 16, "label": "PER"}]


def labels(served: Served, name: str) -> list[Any]:
    return [each["label"] for each in served.http.get(f"/v1/models/{name}/samples").json()["items"]]
