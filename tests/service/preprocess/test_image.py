"""Images of every kind that people have, into the tensor that the description promises."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable

import numpy as np
import pytest
from PIL import Image as Pillow

from service.preprocess.checks import WrongDescription
from service.preprocess.image import Image
from service.preprocess.kind import Unreadable
from service.preprocess.pictures import decode, read_header
from storage.records.signatures import TensorSpec

Encode = Callable[..., bytes]
GRAY = TensorSpec("image", "float32", (1, 2, 2))
RGB = TensorSpec("image", "float32", (3, 2, 2))
CORNERS = np.array([[0, 51], [102, 255]], np.uint8)


def gray(**fields: object) -> Image:
    return Image.parse({"kind": "image", "channels": "gray", **fields}, GRAY)


def rgb(**fields: object) -> Image:
    return Image.parse({"kind": "image", **fields}, RGB)


def test_pixels_are_scaled_centred_and_laid_out(encode: Encode) -> None:
    data = encode(CORNERS)

    plain = gray().decode(data)
    centred = gray(scale=51, mean=[1], std=[2]).decode(data)
    last = Image.parse(
        {"kind": "image", "channels": "gray", "layout": "nhwc"},
        TensorSpec("image", "float32", (2, 2, 1)),
    ).decode(data)

    np.testing.assert_allclose(plain, CORNERS[None] / 255, rtol=1e-6)
    np.testing.assert_allclose(centred, (CORNERS[None] / 51 - 1) / 2, rtol=1e-6)
    assert last[..., 0].tolist() == plain[0].tolist()
    assert plain.dtype == np.float32


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
def test_every_format_shows_the_same_picture(encode: Encode, kind: str) -> None:
    pixels = np.full((32, 32, 3), (200, 40, 90), np.uint8)

    tensor = rgb().decode(encode(pixels, kind))

    np.testing.assert_allclose(tensor[:, 0, 0] * 255, (200, 40, 90), atol=4)


def test_exif_orientation_is_obeyed() -> None:
    picture = Pillow.fromarray(CORNERS)
    exif = Pillow.Exif()
    exif[0x0112] = 6  # turned a quarter clockwise when shown
    buffer = io.BytesIO()
    picture.save(buffer, "PNG", exif=exif)

    tensor = gray().decode(buffer.getvalue())

    np.testing.assert_allclose(tensor[0] * 255, np.rot90(CORNERS, -1), atol=1e-3)


def test_16_bits_palettes_cmyk_and_transparency_are_understood(encode: Encode) -> None:
    shades = CORNERS.astype(np.uint16)
    colours = np.full((2, 2, 3), (255, 0, 0), np.uint8)
    clear = np.zeros((2, 2, 4), np.uint8)

    for off in (-128, 0, 128):  # the nearest shade, not the one below
        deep = encode(np.clip(shades * 257.0 + off, 0, 65535).astype(np.uint16))
        np.testing.assert_allclose(gray().decode(deep)[0] * 255, CORNERS, atol=1e-3)
    for data in (encode(colours, mode="P"), encode(colours, "JPEG", mode="CMYK")):
        np.testing.assert_allclose(rgb().decode(data)[:, 0, 0], (1, 0, 0), atol=0.05)
    assert gray().decode(encode(clear)).min() == 1
    assert gray().decode(encode(colours[..., 0] > 0)).min() == 1


def test_of_an_animation_the_first_frame_counts() -> None:
    frames = [Pillow.new("L", (2, 2), shade) for shade in (255, 0)]
    for kind in ("PNG", "WEBP"):
        buffer = io.BytesIO()
        frames[0].save(buffer, kind, save_all=True, append_images=frames[1:])
        assert gray().decode(buffer.getvalue()).min() > 0.97


@pytest.mark.parametrize(
    ("resize", "expected"),
    [("stretch", [255, 0]), ("cover", [255, 0]), ("contain", [127.5, 127.5])],
)
def test_a_wide_picture_is_stretched_cut_or_padded(
    encode: Encode, resize: str, expected: list[float]
) -> None:
    pixels = np.zeros((64, 128), np.uint8)
    pixels[:, :64] = 255

    tensor = gray(resize=resize).decode(encode(pixels))

    if resize == "contain":
        assert tensor[0].mean() == pytest.approx(0.25, abs=0.02)
    else:
        np.testing.assert_allclose(tensor[0].mean(axis=0) * 255, expected, atol=45)


def test_what_is_no_image_is_refused(encode: Encode) -> None:
    whole = encode(np.arange(64 * 64 * 3, dtype=np.uint8).reshape(64, 64, 3), "JPEG")
    for data, words in (
        (b"%PDF-1.7\n" + bytes(64), "it is no PNG, JPEG or WebP"),
        (b"", "it is no PNG, JPEG or WebP"),
        (whole[: len(whole) // 2], "its end is missing"),
        (encode(np.zeros((8, 8, 3), np.uint8), "PNG")[:-12], "its end is missing"),
        (_gif(), "it is no PNG, JPEG or WebP"),
    ):
        with pytest.raises(Unreadable, match=words):
            gray().decode(data)


def test_a_bomb_is_refused_by_its_header() -> None:
    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(bytes(100))), (b"IEND", b"")]
    png = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
        for name, body in chunks
    )
    with pytest.raises(Unreadable, match="60000 x 60000 pixels, the most is 50000000"):
        read_header(png)
    with pytest.raises(Unreadable, match="60000 x 60000"):
        decode(png)


def test_the_header_says_format_and_size(encode: Encode) -> None:
    header = read_header(encode(np.zeros((3, 5), np.uint8), "WEBP"))
    assert (header.media_type, header.width, header.height) == ("image/webp", 5, 3)


@pytest.mark.parametrize(
    ("fields", "pointer", "words"),
    [
        ({"size": [4, 4]}, "/size", r"makes tensors of shape \[1, 4, 4\]"),
        ({"size": "big"}, "/size", "height, width"),
        ({"channels": "rgb"}, "/size", r"the input 'image' takes \[1, 2, 2\]"),
        ({"resize": "crop"}, "/resize", "cover, contain, stretch"),
        ({"std": [0]}, "/std", "above 0"),
        ({"mean": [1, 2]}, "/mean", "a list of 1 numbers"),
        ({"colour": True}, "/colour", "unknown field"),
        ({"padding": 114}, "/padding", "padding is always 0"),
    ],
)
def test_a_wrong_description_names_its_place(
    fields: dict[str, object], pointer: str, words: str
) -> None:
    with pytest.raises(WrongDescription, match=words) as refused:
        gray(**fields)
    assert refused.value.pointer == pointer


def test_the_description_is_complete_and_describes_itself() -> None:
    described = gray(scale=1).describe()
    assert described["size"] == [2, 2]
    assert Image.parse(described, GRAY).describe() == described


def _gif() -> bytes:
    buffer = io.BytesIO()
    Pillow.new("L", (2, 2)).save(buffer, "GIF")
    return buffer.getvalue()
