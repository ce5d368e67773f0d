"""Whatever is sent as boxes fits its photo once it is stored, or is refused with a reason, as are
folders of COCO and YOLO before anything is sent.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hostile import (
    RANDOM,
    as_body,
    changed,
    damaged,
    flip,
    json_value,
    listed,
    odd_text,
    one_of,
    text,
)
from hypothesis import given, settings
from masks import png

from cli.commands.samples import media
from cli.errors import Failure
from service.prediction.frames import Frame
from service.preprocess.boxes.labels import beyond_photo, read_boxes, shown_boxes
from service.preprocess.masks.__main__ import answer
from service.samples.ingest.boxes import BoxReader
from service.training.tasks import TASKS

FUZZ = settings.get_profile("fuzz")
SIZE = (30, 40)
CLASSES = ("cat", "dog")
TARGET = TASKS["detection"].target_spec((6, 3, 4), CLASSES)
PHOTO = png(np.zeros((*SIZE, 3), np.uint8))
LABEL = {"boxes": [{"box": [1, 2.5, 30, 20], "label": "dog"}, {"box": [0, 0, 40, 30], "label": 0}]}


class Sizes:
    """As the process answers that reads the sizes of photos."""

    def size_of(self, photo: bytes) -> tuple[tuple[int, int] | None, str | None]:
        header = answer(Frame({}, {"photo": np.frombuffer(photo, np.uint8)})).header
        return header.get("size"), header.get("fault")


CHECK: Any = Sizes()
READER = BoxReader(TARGET, CHECK)


def stored(label: Any, photo: bytes = PHOTO) -> bytes | None:
    """As of a sample with this label; None if it is refused."""
    sent, complaint = READER.parse(label)
    if complaint is None and sent is not None:
        sent, complaint = sent.fitted(photo)
    if complaint is not None:
        assert complaint.encode()
        return None
    return sent


def box(r: Random) -> dict[str, Any]:
    sides = [r.choice((r.uniform(-1, 41), r.randint(0, 40), 0.01)) for _ in range(4)]
    return {"box": sides, "label": r.choice([*CLASSES, 0, 1, 2, "yak"])}


boxes = one_of(
    lambda r: changed(r, LABEL),
    lambda r: {"boxes": listed(box, 6)(r)},
    lambda r: {"boxes": [box(r)] * r.choice((1000, 1001))},
    lambda r: as_body(changed(r, LABEL)).decode(),
    json_value,
    odd_text,
)


@FUZZ
@given(r=RANDOM)
def test_boxes(r: Random) -> None:
    label = json.loads(as_body(boxes(r)))
    kept = stored(label, damaged(r, PHOTO) if r.random() < 0.1 else PHOTO)
    if kept is None:
        return
    found = read_boxes(kept)
    assert len(found.boxes) <= 1000
    for box in found.boxes:
        assert beyond_photo(box, found.size) is None
        assert min(box[2:4]) > 0
        assert 0 <= box[4] < len(CLASSES)
    if found.size == SIZE:
        again = stored(json.loads(json.dumps(shown_boxes(kept, TARGET))))
        assert again is not None
        assert read_boxes(again) == found


DOCUMENT = {
    "images": [{"id": 1, "file_name": "a.png", "width": 40, "height": 30}],
    "annotations": [
        {"id": 1, "image_id": 1, "category_id": 7, "bbox": [1, 2, 3, 4], "iscrowd": 0, "area": 12}
    ],
    "categories": [{"id": 7, "name": "cat"}],
}
LINES = b"0 0.5 0.5 0.25 0.25\n1 0.1 0.1 0.2 0.2\n"
NAMES = [
    b"names: [cat, dog]\n",
    b"names:\n  0: cat\n  1: 'dog' # small\n",
    b"names:\n- cat\n- dog\n",
]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A folder of COCO, and one of YOLO."""
    made = {kind: tmp_path_factory.mktemp(kind) for kind in ("coco", "yolo")}
    for folder in made.values():
        (folder / "images").mkdir()
        (folder / "images/a.png").write_bytes(PHOTO)
    (made["yolo"] / "labels").mkdir()
    return made


def assert_read(folder: Path) -> None:
    """What is found are labels; each is stored, or refused with a reason."""
    found: list[media.Media] = []
    with suppress(Failure):
        found, faults = media.find(folder, classes=None, of_boxes=CLASSES, skip=False)
        assert not faults
    for each in found:
        assert each.path == folder / "images/a.png"
        stored(json.loads(json.dumps(each.label)))


@FUZZ
@given(r=RANDOM)
def test_coco(folders: dict[str, Path], r: Random) -> None:
    body = as_body(changed(r, DOCUMENT))
    (folders["coco"] / "instances.json").write_bytes(damaged(r, body) if flip(r) else body)
    assert_read(folders["coco"])


def line(r: Random) -> bytes:
    numbers = [str(r.choice((r.random(), r.randint(-1, 2), "nan", "1e999"))) for _ in range(5)]
    return " ".join([one_of(text, odd_text)(r), *numbers][r.randint(0, 1) :]).encode(
        "utf-8", "replace"
    )


@FUZZ
@given(r=RANDOM)
def test_yolo(folders: dict[str, Path], r: Random) -> None:
    folder = folders["yolo"]
    lines = one_of(lambda r: damaged(r, LINES), lambda r: b"\n".join(listed(line, 3)(r)))(r)
    (folder / "labels/a.txt").write_bytes(lines)
    (folder / "data.yaml").write_bytes(damaged(r, r.choice(NAMES)) if flip(r) else NAMES[0])
    assert_read(folder)
