"""Whatever is sent as samples is stored, or refused with a reason; nothing else escapes."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hostile import JSON_VALUES, ODD_TEXT, Doors, as_body, damaged, nearly, npy, zipped
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from service.errors import InvalidInput, TooLarge
from service.samples.archive import read_archive, write_archive
from service.samples.ingest.csv_upload import store_csv
from service.samples.ingest.images import ImageUpload, read_about, store_images
from service.samples.ingest.intake import UploadOptions
from service.samples.ingest.json_upload import store_json
from service.samples.ingest.npz_upload import store_npz
from service.samples.updates import sample_filter

FUZZ = settings.get_profile("fuzz")
MAX_BYTES = 2**20
SKIP = st.booleans()


def refused_or_done(act: Callable[[], object]) -> None:
    """The reason must be one that can be sent as JSON."""
    try:
        act()
    except (InvalidInput, TooLarge) as error:
        shown = [error.detail, *(f"{each.pointer}{each.detail}" for each in error.problems)]
        json.dumps(shown, ensure_ascii=False).encode()


ONE_SAMPLE = nearly(["inputs", "label", "key", "split"], JSON_VALUES) | st.fixed_dictionaries(
    {"inputs": nearly(["x", "ids", "flag"], JSON_VALUES), "label": JSON_VALUES}
)


@FUZZ
@given(
    body=st.one_of(
        st.one_of(ONE_SAMPLE, st.lists(ONE_SAMPLE, max_size=3).map(lambda s: {"samples": s})).map(
            as_body
        ),
        JSON_VALUES.map(as_body),
        st.binary(max_size=60),
    ),
    skip_bad=SKIP,
    several=st.booleans(),
)
def test_json(doors: Doors, body: bytes, skip_bad: bool, several: bool) -> None:
    model = doors.several if several else doors.classes
    refused_or_done(lambda: store_json(doors.store, model, body, UploadOptions(skip_bad=skip_bad)))


@FUZZ
@given(body=zipped(["x.npy", "label.npy", "key.npy", "ids.npy", "y"], npy()), skip_bad=SKIP)
def test_npz(doors: Doors, body_path: Path, body: bytes, skip_bad: bool) -> None:
    body_path.write_bytes(body)
    refused_or_done(
        lambda: store_npz(
            doors.store,
            doors.classes,
            body_path,
            UploadOptions(skip_bad=skip_bad),
            max_bytes=MAX_BYTES,
        )
    )


def good_npz() -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, x=np.ones((2, 3), "f4"), label=["cat", "dog"], key=["a", "b"])
    return buffer.getvalue()


@FUZZ
@given(body=damaged(good_npz()), skip_bad=SKIP)
def test_a_damaged_npz(doors: Doors, body_path: Path, body: bytes, skip_bad: bool) -> None:
    body_path.write_bytes(body)
    refused_or_done(
        lambda: store_npz(
            doors.store,
            doors.classes,
            body_path,
            UploadOptions(skip_bad=skip_bad),
            max_bytes=MAX_BYTES,
        )
    )


CELLS = st.one_of(
    st.sampled_from(["1", "0.5", "cat", "", "nan", "1e999", "[[[", "1_0", "x[0]", "label", "key"]),
    ODD_TEXT.map(lambda text: text.encode(errors="replace").decode()),
    st.text(max_size=6),
)
LINES = st.lists(st.lists(CELLS, max_size=6).map(",".join), max_size=5).map("\n".join)
HEADERS = st.sampled_from(
    ["a,b,c,label\n", "x[2],x[0],x[1],key\n", f"x[{'9' * 5000}],a,b\n", "a,a,b\n", "", "a\0,b,c\n"]
)


OPTIONS = st.builds(
    UploadOptions,
    skip_bad=SKIP,
    label_column=st.none() | st.text(max_size=8),
    ignore_columns=st.none() | st.sampled_from(["*", "a,b", "", "label"]),
)


@FUZZ
@given(
    text=st.one_of(st.tuples(HEADERS, LINES).map("".join).map(str.encode), st.binary(max_size=60)),
    options=OPTIONS,
)
def test_csv(doors: Doors, body_path: Path, text: bytes, options: UploadOptions) -> None:
    body_path.write_bytes(text)
    refused_or_done(lambda: store_csv(doors.store, doors.classes, body_path, options))


def picture(kind: str) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (5, 4), (9, 99, 199)).save(buffer, kind)
    return buffer.getvalue()


@FUZZ
@given(
    data=st.one_of(*(damaged(picture(kind)) for kind in ("PNG", "JPEG", "WEBP"))),
    about=nearly(["label", "key", "split"], JSON_VALUES),
)
def test_images(doors: Doors, body_path: Path, data: bytes, about: dict[str, Any]) -> None:
    body_path.write_bytes(data)
    upload = ImageUpload("it.png", "image/png", 0, len(data), about)
    refused_or_done(
        lambda: store_images(doors.store, doors.images, body_path, [upload], UploadOptions())
    )


@FUZZ
@given(text=JSON_VALUES.map(json.dumps) | st.text(max_size=40) | ODD_TEXT)
def test_what_a_form_says_of_its_files(text: str) -> None:
    refused_or_done(lambda: read_about(text, ["a.png", "b.png", "a.png"], defaults={}))


@FUZZ
@given(label=st.text(max_size=8) | ODD_TEXT)
def test_a_label_that_is_asked_for(doors: Doors, label: str) -> None:
    refused_or_done(lambda: sample_filter(doors.classes, label=label))


@pytest.fixture(scope="module")
def archive(doors: Doors) -> bytes:
    body = as_body({"samples": [{"inputs": {"x": [1, 2, at]}, "key": f"k{at}"} for at in range(3)]})
    store_json(doors.store, doors.values, body, UploadOptions())
    return b"".join(write_archive(doors.store, doors.values))


@FUZZ
@given(data=st.data())
def test_a_damaged_archive(
    doors: Doors, body_path: Path, archive: bytes, data: st.DataObject
) -> None:
    body_path.write_bytes(data.draw(damaged(archive)))
    refused_or_done(lambda: read_archive(doors.store, doors.values, body_path, max_bytes=MAX_BYTES))


LINE = nearly(["key", "label", "split", "pinned", "length", "sha256"], JSON_VALUES)


@FUZZ
@given(lines=st.lists(LINE.map(as_body), max_size=3), manifest=JSON_VALUES | st.none())
def test_an_archive_of_odd_lines(
    doors: Doors, body_path: Path, archive: bytes, lines: list[bytes], manifest: Any
) -> None:
    with zipfile.ZipFile(io.BytesIO(archive)) as good, zipfile.ZipFile(body_path, "w") as made:
        stated = good.read("manifest.json") if manifest is None else as_body(manifest)
        made.writestr("manifest.json", stated)
        made.writestr("samples/000000.jsonl", b"\n".join(lines))
        made.writestr("data/000000.bin", good.read("data/000000.bin"))
    refused_or_done(lambda: read_archive(doors.store, doors.values, body_path, max_bytes=MAX_BYTES))
