"""A file that was cut short is told by its end, whatever wrote it."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from service.preprocess.pictures import is_whole, read_header

PIXELS = np.random.default_rng(0).integers(0, 255, (40, 50, 3)).astype(np.uint8)


def saved(kind: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(PIXELS).save(buffer, kind, **options)
    return buffer.getvalue()


def thumbnail_inside() -> bytes:
    """A JPEG whose EXIF holds a whole smaller one, with an end of its own."""
    exif = Image.Exif()
    exif[0x9286] = saved("JPEG", quality=20)
    return saved("JPEG", exif=exif)


FILES = {
    "png": saved("PNG"),
    "jpeg": saved("JPEG"),
    "progressive jpeg": saved("JPEG", progressive=True, quality=95),
    "jpeg with restarts": saved("JPEG", restart_marker_rows=1),
    "jpeg with a thumbnail": thumbnail_inside(),
    "webp": saved("WEBP"),
    "lossless webp": saved("WEBP", lossless=True),
}


@pytest.mark.parametrize("name", FILES)
def test_a_whole_file_is_whole_with_and_without_a_trailer(name: str) -> None:
    data = FILES[name]
    media_type = read_header(data).media_type
    assert is_whole(data, media_type)
    assert is_whole(data + b"a phone's trailer", media_type)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("left", [0.3, 0.6, 0.9, 0.999])
def test_a_file_that_was_cut_short_is_not(name: str, left: float) -> None:
    data = FILES[name]
    media_type = read_header(data).media_type
    assert not is_whole(data[: int(len(data) * left)], media_type)
    assert not is_whole(data[:-1], media_type)
