"""Masks beside photos: read by class, and resized, cropped, turned and flipped as these are."""

from __future__ import annotations

import io
import struct
import zlib
from typing import Any

import numpy as np
import pytest
from masks import png
from PIL import Image as Pillow

from service.preprocess.augmentation.draws import Draws
from service.preprocess.image import Image
from service.preprocess.kind import Unreadable
from service.preprocess.masks.labels import UNCOUNTED, values_of
from service.preprocess.masks.masks import HEADER_BYTES, Masks, masks_of
from storage.records.signatures import IGNORED, TargetSpec, TensorSpec

SIZE = (24, 36)
SPEC = TensorSpec("image", "float32", (3, *SIZE))
TARGET = TargetSpec("labels", "int64", SIZE, 3)
LEVELS = (0, 120, 240)
"""Of photos that are painted with their masks' classes."""


def image(**fields: Any) -> Image:
    return Image.parse({"kind": "image", **fields}, SPEC)


def labels_of(described: Image, target: TargetSpec = TARGET) -> Masks:
    found = masks_of(described, target)
    assert found is not None
    return found


def blocks(size: tuple[int, int], seed: int = 0) -> np.ndarray[Any, Any]:
    """Large blocks of classes."""
    coarse = np.random.default_rng(seed).integers(0, 3, (5, 7)).astype(np.uint8)
    return np.asarray(Pillow.fromarray(coarse).resize(size[::-1], Pillow.Resampling.NEAREST))


def painted(classes: np.ndarray[Any, Any]) -> bytes:
    gray = np.array(LEVELS, np.uint8)[classes]
    return png(np.repeat(gray[:, :, None], 3, axis=2))


def pixels(masks: Masks, label: bytes) -> np.ndarray[Any, Any]:
    return masks.row(label)[HEADER_BYTES:].reshape(masks.size)


def agreement(photo: np.ndarray[Any, Any], mask: np.ndarray[Any, Any]) -> float:
    """Share of the pixels that count whose photo shows the class of the mask."""
    nearest = np.abs(photo[0][:, :, None].astype(int) - LEVELS).argmin(axis=2)
    counted = mask != UNCOUNTED
    return float((nearest == mask)[counted].mean())


@pytest.mark.parametrize("resize", ["cover", "contain", "stretch"])
@pytest.mark.parametrize("size", [(60, 90), (60, 60), (40, 100)], ids=str)
def test_a_mask_is_fitted_as_its_photo_is(resize: str, size: tuple[int, int]) -> None:
    described = image(resize=resize)
    classes = blocks(size)
    mask = pixels(labels_of(described), png(classes))
    assert agreement(described.row(painted(classes)).reshape(described.shape), mask) > 0.85
    bars = resize == "contain" and size != (60, 90)
    assert (mask == UNCOUNTED).any() == bars


@pytest.mark.parametrize("resize", ["cover", "contain", "stretch"])
@pytest.mark.parametrize("size", [(60, 90), (60, 60), (40, 100), (7, 5)], ids=str)
def test_a_mask_goes_back_to_the_pixels_of_its_photo(resize: str, size: tuple[int, int]) -> None:
    masks, classes = labels_of(image(resize=resize)), blocks(size)
    back = masks.restored(pixels(masks, png(classes)), size)
    assert back.shape == size
    counted = back != UNCOUNTED
    assert (back == classes)[counted].mean() > 0.85
    cropped = resize == "cover" and size != (60, 90)
    assert counted.all() != cropped
    again = pixels(masks, png(back))
    assert (again == pixels(masks, png(classes))).mean() > 0.9


@pytest.mark.parametrize(
    "augment",
    [
        {"flip": 1},
        {"crop": 0.3},
        {"rotation": 40},
        {"resized_crop": 0.3, "flip": 0.5, "zoom": 0.3, "shear": 20},
    ],
    ids="-".join,
)
def test_a_mask_is_moved_as_its_photo_is(augment: dict[str, float]) -> None:
    described = image(augment=augment)
    masks, classes = labels_of(described), blocks(SIZE)
    draws, moved = Draws(3, 1), 0
    for sample_id in range(20):
        row = described.changed(described.row(painted(classes)), draws.of(sample_id))
        mask = masks.changed(pixels(masks, png(classes)), draws.of(sample_id))
        assert agreement(row.reshape(described.shape), mask) > 0.8
        assert set(np.unique(mask)) <= {0, 1, 2}
        moved += not (mask == classes).all()
    assert moved > 15


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
@pytest.mark.parametrize("palette", [False, True])
def test_values_are_class_indices_whatever_the_bits_are(bits: int, palette: bool) -> None:
    classes = np.array([[0, 1], [1, 0], [min(3, 2**bits - 1), 1]], np.uint8)
    if palette:
        picture = Pillow.fromarray(classes).convert("P")
        picture.putdata(classes.ravel().tolist())
        picture.putpalette([9, 9, 9, 200, 0, 0, 0, 0, 7, 1, 2, 3])
        buffer = io.BytesIO()
        picture.save(buffer, "PNG", bits=bits)
        assert (values_of(buffer.getvalue()) == classes).all()
        return
    assert (values_of(_gray(classes, bits)) == classes).all()


def _gray(values: np.ndarray[Any, Any], bits: int) -> bytes:
    """Pillow writes gray of 1 and 8 bits alone, so the chunks are written here."""
    height, width = values.shape
    rows = [b"\0" + np.packbits(_bits(row, bits)).tobytes() for row in values]

    def chunk(kind: bytes, data: bytes) -> bytes:
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    header = struct.pack(">IIBBBBB", width, height, bits, 0, 0, 0, 0)
    data = zlib.compress(b"".join(rows))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        [chunk(b"IHDR", header), chunk(b"IDAT", data), chunk(b"IEND", b"")]
    )


def _bits(row: np.ndarray[Any, Any], bits: int) -> np.ndarray[Any, Any]:
    return (row[:, None] >> np.arange(bits)[::-1] & 1).ravel().astype(np.uint8)


def test_an_array_of_the_tensors_size_is_a_mask_too() -> None:
    indices = np.full(SIZE, 2, "<i8")
    indices[0] = IGNORED
    mask = pixels(labels_of(image()), indices.tobytes())
    assert (mask[0] == UNCOUNTED).all()
    assert (mask[1:] == 2).all()


def test_a_value_beyond_the_classes_is_unreadable() -> None:
    classes = blocks(SIZE).copy()
    classes[3, 3] = 7
    with pytest.raises(Unreadable, match="mask holds the value 7; the model has classes 0 to 2"):
        labels_of(image()).row(png(classes))


@pytest.mark.parametrize(
    "target",
    [
        TargetSpec("labels", "int64", (), 3),
        TargetSpec("labels", "int64", (12, 18), 3),
        TargetSpec("labels", "int64", SIZE, 256),
        TargetSpec("target", "float32", SIZE),
    ],
    ids=["one class", "another size", "many classes", "numbers"],
)
def test_other_labels_are_no_masks(target: TargetSpec) -> None:
    assert masks_of(image(), target) is None
