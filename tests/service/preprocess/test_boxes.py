"""Boxes are where the things are that they are around, however a photo is fitted and augmented."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from masks import png

from service.preprocess.augmentation.draws import Draws
from service.preprocess.boxes.boxes import Boxes, boxes_of
from service.preprocess.boxes.labels import StoredBoxes
from service.preprocess.image import Image
from storage.database.codec import encode
from storage.records.signatures import TargetSpec, TensorSpec

SIZE = (48, 72)
SPEC = TensorSpec("image", "float32", (3, *SIZE))
TARGET = TargetSpec("boxes", "float32", (1000, 5), box_classes=2)
SIZES = [(96, 100), (60, 150), (40, 90)]
"""Heights and widths of photos."""


def parts(**fields: Any) -> tuple[Image, Boxes]:
    kind = Image.parse({"kind": "image", **fields}, SPEC)
    boxes = boxes_of(kind, TARGET)
    assert boxes is not None
    return kind, boxes


def photo(size: tuple[int, int], box: tuple[int, int, int, int]) -> np.ndarray:
    """Gray, with a white box."""
    pixels = np.full((*size, 3), 60, np.uint8)
    x, y, width, height = box
    pixels[y : y + height, x : x + width] = 255
    return pixels


def label(size: tuple[int, int], *boxes: tuple[float, ...]) -> bytes:
    return encode(StoredBoxes(size, tuple((*box, 1) for box in boxes)))  # type: ignore[misc]


def white(pixels: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """x, y, width and height of what is white, as shares."""
    rows, columns = np.nonzero(pixels.reshape(shape).min(axis=0) > 157)
    begin, end = np.array([columns.min(), rows.min()]), np.array([columns.max(), rows.max()]) + 1
    sides = SIZE[::-1]
    return np.concatenate([begin / sides, (end - begin) / sides])


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("resize", ["cover", "contain", "stretch"])
def test_a_box_is_placed_as_its_photo_is_and_back(resize: str, size: tuple[int, int]) -> None:
    kind, boxes = parts(resize=resize)
    box = (size[1] // 2 - 8, size[0] // 2 - 5, 22, 12)
    (seen,) = boxes.seen(boxes.placed(label(size, box)))
    assert seen[4] == 1
    assert seen[:4] == pytest.approx(white(kind.row(png(photo(size, box))), kind.shape), abs=0.03)
    assert boxes.restored(seen[None, :4], size)[0] == pytest.approx(box, abs=1e-4)


AUGMENTS = [
    {"flip": 1.0},
    {"crop": 0.2},
    {"crop": 0.1, "flip": 0.5},
    {"resized_crop": 0.6, "flip": 0.5},
    {"zoom": 0.4},
    {"shear": 20},
    {"rotation": 90},
    {"rotation": 30, "zoom": 0.2, "flip": 0.5, "shear": 10, "crop": 0.1},
]


@pytest.mark.parametrize("augment", AUGMENTS, ids=str)
def test_a_box_is_around_what_it_was_around_before_its_photo_moved(
    augment: dict[str, float],
) -> None:
    kind, boxes = parts(augment=augment)
    size, box = (48, 72), (30, 18, 14, 12)
    row, placed = kind.row(png(photo(size, box))), boxes.placed(label(size, box))
    for epoch in range(5):
        (seen,) = boxes.seen(placed, Draws(3, epoch).of(7))
        moved = white(kind.changed(row, Draws(3, epoch).of(7)), kind.shape)
        assert seen[:4] == pytest.approx(moved, abs=0.04)


def test_boxes_are_cut_off_at_the_border_and_dropped_if_little_is_left() -> None:
    _, boxes = parts(resize="cover")  # a quarter is cut off at either side
    given = label((48, 144), (30, 0, 12, 10), (28, 0, 12, 10), (20, 0, 16, 10), (100, 40, 10, 8))
    seen = boxes.seen(boxes.placed(given))
    assert seen[:, :4] * [72, 48, 72, 48] == pytest.approx(
        np.array([[0, 0, 6, 10], [0, 0, 4, 10], [64, 40, 8, 8]]), abs=1e-4
    )
    assert len(boxes.seen(boxes.placed(label((48, 144))))) == 0


def test_a_photo_of_another_shape_gets_its_boxes_back_within_its_borders() -> None:
    _, boxes = parts(resize="contain")
    whole = boxes.restored(np.array([[0.0, 0.0, 1.0, 1.0]]), (48, 36))
    assert whole.tolist() == [[0, 0, 36, 48]]
    padding = boxes.restored(np.array([[0.0, 0.0, 0.2, 1.0], [0.3, 0.2, 0.1, 0.1]]), (48, 36))
    assert padding[0, 2] == 0
    assert padding[1].tolist() == [3.6, 9.6, 7.2, 4.8]


def test_other_labels_are_no_boxes() -> None:
    kind, _ = parts()
    assert boxes_of(kind, TargetSpec("labels", "int64", (), 3)) is None
    assert boxes_of(None, TARGET) is None
