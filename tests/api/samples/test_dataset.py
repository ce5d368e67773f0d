"""Curation of a whole dataset: filters, quotas, archives, duplicates, the disk's reserve."""

from __future__ import annotations

import hashlib
import io
import json
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import Served, blobs, mlp


@pytest.fixture
def model(served: Served, request: pytest.FixtureRequest) -> str:
    name = re.sub(r"\W+", "-", request.node.name)[:60]
    served.register(name, mlp(3, 4, 2), classes=["cat", "dog"])
    return name


def ids(served: Served, model: str, **query: object) -> list[int]:
    answer = served.http.get(f"/v1/models/{model}/samples", params={"limit": 1000, **query})
    assert answer.status_code == 200, answer.text
    return [entry["id"] for entry in answer.json()["items"]]


def rows(count: int, first: int = 0) -> np.ndarray:
    return np.arange(first * 3, (first + count) * 3, dtype=np.float32).reshape(count, 3)


def test_labels_come_later_by_key(served: Served, model: str) -> None:
    url = f"/v1/models/{model}/samples"
    served.upload(model, split="train", x=rows(3), key=np.array(["a", "b", "c"]))

    named = served.http.patch(url, params={"key": "b"}, json={"label": "dog", "pinned": True})
    unknown = served.http.patch(url, params={"key": "z"}, json={"label": "dog"})
    wrong = served.http.patch(url, params={"key": "a"}, json={"label": "cow"})

    assert (named.json()["label"], named.json()["pinned"]) == (1, True)
    assert (unknown.status_code, wrong.status_code) == (404, 422)
    assert len(ids(served, model, unlabelled=True)) == 2
    assert ids(served, model, pinned=True) == ids(served, model, key="b")


def test_samples_are_deleted_by_filter_but_not_all_by_accident(served: Served, model: str) -> None:
    url = f"/v1/models/{model}/samples"
    served.upload(model, split="train", x=rows(6), label=np.array([0, 1, 0, 1, 0, 1]))
    served.upload(model, split="validation", x=rows(2, 6), label=np.array([1, 1]))

    accident = served.http.delete(url)
    dogs = served.http.delete(url, params={"label": "dog", "split": "train"})
    everything = served.http.delete(url, params={"all": True})

    assert accident.status_code == 422
    assert "all=true" in accident.json()["errors"][0]["detail"]
    assert dogs.json() == {"deleted": 3, "job": None, "versions": []}
    assert everything.json()["deleted"] == 5
    assert ids(served, model) == []


def test_duplicates_are_found_by_content(served: Served, model: str) -> None:
    x = rows(6)
    x[3] = x[0]
    x[4] = x[0]
    x[5] = x[1]
    served.http.patch(f"/v1/models/{model}", json={"duplicates": "keep"})
    first = served.upload(model, x=x).json()["ids"][0]

    found = served.http.get(f"/v1/models/{model}/samples/duplicates").json()["items"]

    assert [each["ids"] for each in found] == [
        [first, first + 3, first + 4],
        [first + 1, first + 5],
    ]
    url, kind = f"/v1/models/{model}/samples", {"Content-Type": "application/zip"}
    archive = served.http.get(f"{url}/archive").content
    served.http.patch(f"/v1/models/{model}", json={"duplicates": "merge"})
    served.http.delete(url, params={"all": True})
    merged = served.http.post(f"{url}/archive", content=archive, headers=kind)
    kept = served.http.post(f"{url}/archive?allow_duplicates=true", content=archive, headers=kind)
    assert (merged.json()["accepted"], kept.json().get("accepted")) == (3, 6)


@pytest.mark.parametrize(
    ("when_full", "kept"), [("oldest", [4, 5, 6, 7, 8, 9]), ("balanced", [2, 3, 6, 7, 8, 9])]
)
def test_a_quota_takes_the_right_samples_away(
    served: Served, model: str, when_full: str, kept: list[int]
) -> None:
    url = f"/v1/models/{model}"
    quota = {"max_samples": 6, "when_full": when_full}
    assert served.http.patch(url, json={"quota": quota}).json()["quota"]["max_samples"] == 6
    label = np.array([0, 0, 1, 1, 0, 0])

    first = served.upload(model, split="train", x=rows(6), label=label).json()
    second = served.upload(model, split="train", x=rows(4, 6), label=np.array([0, 0, 1, 1])).json()

    assert (first["evicted"], second["evicted"]) == (0, 4)
    start = first["ids"][0]
    if when_full == "balanced":
        counts = served.http.get(f"{url}/samples/stats").json()["labels"]
        assert [count["count"] for count in counts] == [3, 3]
    else:
        assert [each - start for each in ids(served, model)] == kept


def test_pinned_and_validation_samples_stay_and_fill_the_quota(served: Served, model: str) -> None:
    url = f"/v1/models/{model}"
    served.http.patch(url, json={"quota": {"max_samples": 3}})
    first = served.upload(model, split="train", x=rows(1)).json()["ids"][0]
    served.http.patch(f"{url}/samples/{first}", json={"pinned": True})
    served.upload(model, split="validation", x=rows(2, 1))

    full = served.offer(model, split="validation", x=rows(1, 3))

    assert full.status_code == 507
    assert "pinned" in full.json()["detail"]
    assert len(ids(served, model)) == 3


def test_most_bytes_are_a_quota_too(served: Served, model: str) -> None:
    url = f"/v1/models/{model}"
    served.upload(model, split="train", x=rows(10))

    served.http.patch(url, json={"quota": {"max_bytes": 36}})

    assert served.http.get(f"{url}/samples/stats").json()["size_bytes"] == 36
    assert len(ids(served, model)) == 3


def test_an_archive_moves_a_dataset_to_another_model(served: Served, model: str) -> None:
    other = f"{model}-other"
    served.register(other, mlp(3, 4, 2, seed=5), classes=["dog", "cat"])
    served.upload(
        model, split="train", x=rows(3), label=np.array([0, 1, 1]), key=np.array(["ä", "b", "c"])
    )
    served.upload(model, split="validation", x=rows(600, 3))
    served.http.patch(f"/v1/models/{model}/samples", params={"key": "b"}, json={"pinned": True})

    archive = served.http.get(f"/v1/models/{model}/samples/archive")
    packed_again = io.BytesIO(archive.content)  # as `zip -r` does
    with zipfile.ZipFile(packed_again, "a") as added:
        added.writestr("samples/", b"")
        added.writestr("data/", b"")
    answers = [
        served.http.post(
            f"/v1/models/{other}/samples/archive",
            content=content,
            headers={"Content-Type": "application/zip"},
        ).json()
        for content in (archive.content, packed_again.getvalue())
    ]

    def told(name: str) -> list[tuple[object, ...]]:
        shown = served.http.get(f"/v1/models/{name}/samples", params={"limit": 1000}).json()
        names = served.http.get(f"/v1/models/{name}").json()["target"]["classes"]
        return [
            (
                s["key"],
                None if s["label"] is None else names[s["label"]],
                s["split"],
                s["pinned"],
                s["sha256"],
            )
            for s in shown["items"]
        ]

    assert zipfile.ZipFile(io.BytesIO(archive.content)).testzip() is None
    assert (answers[0]["accepted"], answers[1]["duplicates"]) == (603, 603)
    assert told(other) == told(model)
    assert told(model)[1][:4] == ("b", "dog", "train", True)


def damaged(good: bytes, name: str, change: Callable[[bytes], bytes | None]) -> bytes:
    """The archive with one entry changed, or left out."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(good)) as old, zipfile.ZipFile(buffer, "w") as new:
        for entry in old.namelist():
            content = old.read(entry)
            made = change(content) if entry == name else content
            if made is not None:
                new.writestr(entry, made)
    return buffer.getvalue()


def of_a_later_version(manifest: bytes) -> bytes:
    return manifest.replace(b'"version": 2', b'"version": 3')


def test_a_wrong_archive_is_refused_whole(served: Served, model: str) -> None:
    served.upload(model, x=rows(3))
    good = served.http.get(f"/v1/models/{model}/samples/archive").content
    served.register(f"{model}-wide", mlp(4, 2))

    for target, body, words in (
        (model, b"no zip", "send the whole zip"),
        (model, good[:-30], "send the whole zip"),
        (f"{model}-wide", good, "inputs: the archive has"),
        (
            model,
            damaged(good, "data/000000.bin", lambda data: bytes(len(data))),
            "not those that were",
        ),
        (model, damaged(good, "data/000000.bin", lambda data: data + b"1"), "its data"),
        (model, damaged(good, "data/000000.bin", lambda _: None), "missing"),
        (model, damaged(good, "samples/000000.jsonl", lambda _: b"{}\n"), "not a sample"),
        (model, damaged(good, "samples/000000.jsonl", lambda _: b"[1]\n"), "an object with key"),
        (
            model,
            damaged(good, "samples/000000.jsonl", lambda t: t.replace(b"12", b"-1")),
            "'length' is",
        ),
        (model, damaged(good, "manifest.json", lambda _: b"{}"), "no archive of Hone"),
        (model, damaged(good, "manifest.json", of_a_later_version), "has version 3"),
        (model, damaged(good, "end.json", lambda _: None), "missing"),
        (model, damaged(good, "end.json", lambda _: b'{"chunks": 2}'), "missing"),
        (model, damaged(good, "end.json", lambda _: b'{"chunks": 0}'), "the archive has 0 chunks"),
        (model, damaged(good, "end.json", lambda _: b'{"chunks": true}'), "an integer from 0"),
    ):
        answer = served.http.post(
            f"/v1/models/{target}/samples/archive",
            content=body,
            headers={"Content-Type": "application/zip"},
        )
        assert answer.status_code == 422, (words, answer.text)
        assert words in answer.json()["errors"][0]["detail"]
    assert len(ids(served, model)) == 3


@pytest.mark.parametrize(
    ("record", "pointer", "words"),
    [
        (bytes(11), "/samples/000000.jsonl/2", "it has 11 bytes, a sample of this model has 12"),
        (bytes(24), "/samples/000000.jsonl/2", "it has 24 bytes"),
        (b"", "/samples/000000.jsonl/2", "it has 0 bytes"),
        (np.array([1, np.nan, 2], "<f4").tobytes(), "/samples/000000.jsonl/2", "nan at [1]"),
        (np.array([np.inf, 1, 2], "<f4").tobytes(), "/samples/000000.jsonl/2", "inf at [0]"),
    ],
    ids=["short", "long", "empty", "nan", "infinite"],
)
def test_an_archive_brings_only_records_that_an_upload_could(
    record: bytes, pointer: str, words: str, served: Served, model: str
) -> None:
    served.upload(model, x=rows(2), split="train", label=np.array([0, 1]))
    good = served.http.get(f"/v1/models/{model}/samples/archive").content
    with zipfile.ZipFile(io.BytesIO(good)) as old:
        manifest, data = old.read("manifest.json"), old.read("data/000000.bin")
        lines = [json.loads(line) for line in old.read("samples/000000.jsonl").splitlines()]
    lines[1] |= {"length": len(record), "sha256": hashlib.sha256(record).hexdigest(), "key": "k"}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as new:
        new.writestr("manifest.json", manifest)
        new.writestr("samples/000000.jsonl", "\n".join(map(json.dumps, lines)))
        new.writestr("data/000000.bin", data[:12] + record)
        new.writestr("end.json", '{"chunks": 1}')

    answer = served.http.post(
        f"/v1/models/{model}/samples/archive",
        content=buffer.getvalue(),
        headers={"Content-Type": "application/zip"},
    )

    assert answer.status_code == 422, answer.text
    (fault,) = answer.json()["errors"]
    assert fault["pointer"] == pointer
    assert words in fault["detail"]
    assert len(ids(served, model)) == 2
    served.upload(model, x=rows(2, 4), split="train", label=np.array([0, 1]))
    served.train(model, epochs=1)


def test_a_disk_without_room_takes_no_uploads(serve: Callable[..., Served], tmp_path: Path) -> None:
    before = serve(tmp_path / "full")
    before.register("m", mlp(3, 2))
    before.stop()
    served = serve(tmp_path / "full", disk_reserve_bytes=2**60)
    form: dict[str, Any] = {"data": {"spec": json.dumps({"name": "n", "loss": "mse"})}}
    form["files"] = {"model": ("model.onnx", mlp(3, 2))}
    tensors: dict[str, Any] = {
        "content": b"{}",
        "headers": {"Content-Type": "application/safetensors"},
    }
    round_of: dict[str, Any] = {"data": {"spec": "{}"}, "files": {"parameters": ("p", b"{}")}}

    for answer in (
        served.offer("m", **blobs(2, 3, 2)),
        served.http.post("/v1/models", **form),
        served.http.post("/v1/diagnosis", **form),
        served.http.put("/v1/models/m/parameters", **tensors),
        served.http.post("/v1/models/m/evaluate", **tensors),
        served.http.post("/v1/models/m/rounds", **round_of),
    ):
        assert (answer.status_code, answer.json()["code"]) == (507, "storage_full"), answer.text
        assert "1073741824.0 GiB in reserve (HONED_DISK_RESERVE_BYTES)" in answer.json()["detail"]
