"""Whatever is sent as samples is stored, or refused with a reason; nothing else escapes."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hostile import (
    RANDOM,
    Doors,
    as_body,
    changed,
    damaged,
    flip,
    json_value,
    listed,
    nearly,
    npy,
    odd_text,
    one_of,
    raw,
    refused_or_done,
    text,
    zipped,
)
from hypothesis import given, settings
from PIL import Image
from recordings import wav_header, written

from service.preprocess import Unreadable, for_model
from service.samples.archive import read_archive, write_archive
from service.samples.ingest.csv_upload import store_csv
from service.samples.ingest.files import FileUpload, read_about, store_files
from service.samples.ingest.intake import UploadOptions
from service.samples.ingest.json_upload import store_json, store_jsonl
from service.samples.ingest.npz_upload import store_npz
from service.samples.updates import class_index

FUZZ = settings.get_profile("fuzz")
MAX_BYTES = 2**20


GOOD = [
    {"inputs": {"x": [0.5, 1, -2]}, "label": "cat", "key": "k", "split": "train"},
    {"samples": [{"inputs": {"x": [1, 2, 3]}, "label": 2}, {"inputs": {"x": [3, 2, 1]}}]},
    {"inputs": {"ids": [1, 2], "flag": True}, "label": 0, "key": "k2", "split": None},
]
one_sample = one_of(
    nearly(["inputs", "label", "key", "split"], json_value),
    lambda r: {"inputs": nearly(["x", "ids", "flag"], json_value)(r), "label": json_value(r)},
)
json_bodies = one_of(
    lambda r: as_body(changed(r, r.choice(GOOD))),
    lambda r: as_body(one_sample(r)),
    lambda r: as_body({"samples": listed(one_sample, 3)(r)}),
    lambda r: as_body(json_value(r)),
    raw,
)


@FUZZ
@given(r=RANDOM)
def test_json(doors: Doors, r: Random) -> None:
    model = r.choice((doors.several, doors.classes))
    body, options = json_bodies(r), UploadOptions(skip_bad=flip(r))
    refused_or_done(lambda: store_json(doors.store, model, body, options))


one_text = one_of(
    nearly(["text", "text_pair", "label", "key", "split", "weight"], json_value),
    lambda r: {"text": one_of(text, odd_text)(r), "text_pair": text(r), "label": json_value(r)},
    lambda r: {"text": one_of(text, odd_text)(r)},
)
text_lines = one_of(
    lambda r: b"\n".join(as_body(each) for each in listed(one_of(one_text, one_sample), 5)(r)),
    lambda r: damaged(r, b'{"text": "on my way", "label": "cat"}\n{"text": "a\\u001fb"}\n'),
    raw,
)


@FUZZ
@given(r=RANDOM)
def test_texts(doors: Doors, body_path: Path, r: Random) -> None:
    model = r.choice((doors.texts, doors.pairs, doors.classes, doors.images))
    body, options = text_lines(r), csv_options(r)
    body_path.write_bytes(body)
    refused_or_done(
        lambda: store_jsonl(doors.store, model, body_path, options, max_line_bytes=4096)
    )
    listed_texts = as_body({"samples": listed(one_text, 3)(r)})
    refused_or_done(lambda: store_json(doors.store, model, listed_texts, options))
    header = r.choice(("text,label\n", "text_pair,text,key\n", "text\n"))
    body_path.write_bytes(header.encode() + damaged(r, table(r)))
    refused_or_done(lambda: store_csv(doors.store, model, body_path, options))
    plain = one_of(raw, lambda r: odd_text(r).encode("utf-8", "surrogatepass"))(r)
    body_path.write_bytes(plain)
    upload = FileUpload("it", "text/plain", 0, len(plain), {})
    refused_or_done(lambda: store_files(doors.store, model, body_path, [upload], options))


arrays = zipped(["x.npy", "label.npy", "key.npy", "ids.npy", "y"], npy)


@FUZZ
@given(r=RANDOM)
def test_npz(doors: Doors, body_path: Path, r: Random) -> None:
    body_path.write_bytes(arrays(r))
    options = UploadOptions(skip_bad=flip(r))
    refused_or_done(
        lambda: store_npz(doors.store, doors.classes, body_path, options, max_bytes=MAX_BYTES)
    )


def good_npz() -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, x=np.ones((2, 3), "f4"), label=["cat", "dog"], key=["a", "b"])
    return buffer.getvalue()


@FUZZ
@given(r=RANDOM)
def test_a_damaged_npz(doors: Doors, body_path: Path, r: Random) -> None:
    body_path.write_bytes(damaged(r, good_npz()))
    options = UploadOptions(skip_bad=flip(r))
    refused_or_done(
        lambda: store_npz(doors.store, doors.classes, body_path, options, max_bytes=MAX_BYTES)
    )


CELLS = ["1", "0.5", "cat", "", "nan", "1e999", "[[[", "1_0", "x[0]", "label", "key"]
HEADERS = ["a,b,c,label\n", "x[2],x[0],x[1],key\n", f"x[{'9' * 5000}],a,b\n", "a,a,b\n", ""]
HEADERS += ["a\0,b,c\n", "x0,x1,x2,label,key,split\n"]
cell = one_of(lambda r: r.choice(CELLS), lambda r: r.choice(CELLS), odd_text, text)


def table(r: Random) -> bytes:
    rows = [",".join(listed(cell, 6)(r)) for _ in range(r.randint(0, 5))]
    return (r.choice(HEADERS) + "\n".join(rows)).encode(
        errors=r.choice(("replace", "surrogatepass"))
    )


def csv_options(r: Random) -> UploadOptions:
    return UploadOptions(
        skip_bad=flip(r),
        csv_columns=r.choice(({}, {"label": "label"}, {"label": "c", "weight": text(r)})),
        ignore_columns=r.choice((None, None, "*", "a,b", "", "label")),
    )


@FUZZ
@given(r=RANDOM)
def test_csv(doors: Doors, body_path: Path, r: Random) -> None:
    body_path.write_bytes(one_of(table, table, raw)(r))
    options = csv_options(r)
    refused_or_done(lambda: store_csv(doors.store, doors.classes, body_path, options))


SERIES = [
    as_body({"recording": [[at, -at] for at in range(8)]}),
    "\n".join(["a,b,split", *(f"{at},{at / 2},train" for at in range(8))]).encode(),
]


@FUZZ
@given(r=RANDOM)
def test_recordings_of_rows(doors: Doors, body_path: Path, r: Random) -> None:
    model, options = doors.forecasts, csv_options(r)
    rows = as_body({"recording": listed(json_value, 9)(r), **nearly(["split"], json_value)(r)})
    body = r.choice((damaged(r, SERIES[0]), rows))
    refused_or_done(lambda: store_json(doors.store, model, body, options))
    body_path.write_bytes(r.choice((damaged(r, SERIES[1]), table(r))))
    refused_or_done(lambda: store_csv(doors.store, model, body_path, options))
    body_path.write_bytes(arrays(r))
    refused_or_done(lambda: store_npz(doors.store, model, body_path, options, max_bytes=MAX_BYTES))


def picture(kind: str) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (5, 4), (9, 99, 199)).save(buffer, kind)
    return buffer.getvalue()


PICTURES = {f"image/{kind.lower()}": picture(kind) for kind in ("PNG", "JPEG", "WEBP")}


@FUZZ
@given(r=RANDOM)
def test_images(doors: Doors, body_path: Path, r: Random) -> None:
    data = damaged(r, r.choice(list(PICTURES.values())))
    body_path.write_bytes(data)
    media_type = r.choice(list(PICTURES))
    said = json.dumps({"it": nearly(["label", "key", "split"], json_value)(r)})

    def store() -> None:
        (about,) = read_about(said, ["it"], defaults={})
        upload = FileUpload("it", media_type, 0, len(data), about)
        store_files(doors.store, doors.images, body_path, [upload], UploadOptions())

    refused_or_done(store)


RECORDINGS = [
    written(np.sin(np.arange(600)), subtype="PCM_U8"),
    written(np.zeros((300, 2)), 22_050, subtype="FLOAT"),
    written(np.sin(np.arange(300)), kind="FLAC"),
    wav_header(),
]


@FUZZ
@given(r=RANDOM)
def test_recordings(doors: Doors, body_path: Path, r: Random) -> None:
    data = damaged(r, r.choice(RECORDINGS))
    body_path.write_bytes(data)
    upload = FileUpload("it", "audio/wav", 0, len(data), {})
    refused_or_done(
        lambda: store_files(doors.store, doors.recordings, body_path, [upload], UploadOptions())
    )


@FUZZ
@given(r=RANDOM)
def test_decoded_recordings(doors: Doors, r: Random) -> None:
    kind = for_model(doors.recordings).files
    assert kind is not None
    try:
        tensor = kind.decode(damaged(r, r.choice(RECORDINGS)))
    except Unreadable:
        return
    assert np.isfinite(tensor).all()


ABOUT = {"a.png": {"label": "cat", "key": "k"}, "b.png": {"split": "train"}}
said_of_files = one_of(
    lambda r: json.dumps(changed(r, ABOUT)), lambda r: json.dumps(json_value(r)), text, odd_text
)


@FUZZ
@given(r=RANDOM)
def test_what_a_form_says_of_its_files(r: Random) -> None:
    said = said_of_files(r)
    refused_or_done(lambda: read_about(said, ["a.png", "b.png", "a.png"], defaults={}))


labels = one_of(text, odd_text, lambda r: json.dumps(json_value(r)))


@FUZZ
@given(r=RANDOM)
def test_a_label_that_is_asked_for(doors: Doors, r: Random) -> None:
    label = labels(r)
    refused_or_done(lambda: class_index(doors.classes, label))


@pytest.fixture(scope="module")
def archive(doors: Doors) -> bytes:
    body = as_body({"samples": [{"inputs": {"x": [1, 2, at]}, "key": f"k{at}"} for at in range(3)]})
    store_json(doors.store, doors.values, body, UploadOptions())
    return b"".join(write_archive(doors.store, doors.values))


@FUZZ
@given(r=RANDOM)
def test_a_damaged_archive(doors: Doors, body_path: Path, archive: bytes, r: Random) -> None:
    body_path.write_bytes(damaged(r, archive))
    refused_or_done(
        lambda: read_archive(
            doors.store, doors.values, body_path, UploadOptions(), max_bytes=MAX_BYTES
        )
    )


@FUZZ
@given(r=RANDOM)
def test_an_archive_that_says_odd_things(
    doors: Doors, body_path: Path, archive: bytes, r: Random
) -> None:
    with zipfile.ZipFile(io.BytesIO(archive)) as good, zipfile.ZipFile(body_path, "w") as written:
        parts = {name: good.read(name) for name in good.namelist()}
        stated = json.loads(parts["manifest.json"])
        lines = [json.loads(line) for line in parts["samples/000000.jsonl"].splitlines()]
        parts["manifest.json"] = as_body(changed(r, stated) if flip(r) else stated)
        parts["samples/000000.jsonl"] = b"\n".join(map(as_body, changed_lines(r, lines)))
        for name, content in parts.items():
            written.writestr(name, content)
    refused_or_done(
        lambda: read_archive(
            doors.store, doors.values, body_path, UploadOptions(), max_bytes=MAX_BYTES
        )
    )


def changed_lines(r: Random, lines: list[Any]) -> list[Any]:
    odd = changed(r, lines)
    return odd if isinstance(odd, list) else [odd]
