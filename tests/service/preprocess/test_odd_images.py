"""Pictures that are whole, but odd: thin, huge, with metadata that Pillow cannot write again."""

from __future__ import annotations

import io
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image as Pillow
from PIL import ImageOps

from service.preprocess import pictures
from service.preprocess.image import Image
from storage.records.signatures import TensorSpec

SPEC = TensorSpec("image", "float32", (3, 16, 16))
SIDE = 7000
LIMIT_BYTES = 512 << 20
RAGGED = np.random.default_rng(0).integers(0, 255, (50, 37, 4)).astype(np.uint8)


def picture(**fields: object) -> Image:
    return Image.parse({"kind": "image", **fields}, SPEC)


def saved(image: Pillow.Image, kind: str = "PNG", **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def odd_exif(orientation: int) -> bytes:
    """EXIF with an orientation, and an XResolution that is text where a fraction belongs."""
    entries = struct.pack(">HHIHH", 0x0112, 3, 1, orientation, 0)
    entries += struct.pack(">HHI4s", 0x011A, 2, 4, b"odd\0")
    return b"Exif\0\0MM\0*" + struct.pack(">IH", 8, 2) + entries + bytes(4)


@pytest.mark.parametrize("resize", ["cover", "contain", "stretch"])
@pytest.mark.parametrize("size", [(600, 2), (2, 600), (1, 1), (20_000, 1)])
def test_a_thin_picture_becomes_a_tensor(resize: str, size: tuple[int, int]) -> None:
    tensor = picture(resize=resize).decode(saved(Pillow.new("RGB", size, "red")))

    assert tensor[0].max() == pytest.approx(1)
    assert tensor[1:].max() == 0


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_picture_with_odd_metadata_is_upright(kind: str, orientation: int) -> None:
    image = Pillow.fromarray(RAGGED[..., :3])
    clean = Pillow.Exif()
    clean[0x0112] = orientation
    odd = saved(image, kind, exif=odd_exif(orientation))
    usual = saved(image, kind, exif=clean)

    upright = pictures.decode(odd)

    expected = ImageOps.exif_transpose(Pillow.open(io.BytesIO(usual)))
    np.testing.assert_array_equal(np.asarray(upright), np.asarray(expected))


@pytest.mark.parametrize("size", [(16, 16), (9, 40), (40, 9), (37, 50), (1, 7)])
def test_contain_pads_as_pillow_does(size: tuple[int, int]) -> None:
    image = Pillow.fromarray(RAGGED[..., :3])
    height, width = size

    made = pictures.fit(image, size, "contain")

    expected = ImageOps.pad(image, (width, height), Pillow.Resampling.BILINEAR, color=0)
    np.testing.assert_array_equal(np.asarray(made), np.asarray(expected))


@pytest.mark.parametrize("channels", ["rgb", "gray"])
@pytest.mark.parametrize("mode", ["RGBA", "LA", "P", "L", "1", "I", "CMYK", "transparent"])
def test_a_picture_is_flattened_in_strips_as_in_one(
    monkeypatch: pytest.MonkeyPatch, mode: str, channels: str
) -> None:
    image = Pillow.fromarray(RAGGED)
    if mode == "I":
        image = Pillow.fromarray(RAGGED[..., 0].astype(np.uint16) * 256)
    elif mode == "transparent":
        image = image.convert("P")
        image.info["transparency"] = 3
    else:
        image = image.convert(mode)
    whole = pictures.flatten(image, channels)

    monkeypatch.setattr(pictures, "STRIP_PIXELS", 100)
    in_strips = pictures.flatten(image, channels)

    assert in_strips.mode == whole.mode
    np.testing.assert_array_equal(np.asarray(in_strips), np.asarray(whole))


@pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_DATA counts mappings on Linux only")
@pytest.mark.parametrize(("mode", "orientation"), [("RGBA", 1), ("CMYK", 6), ("RGB", 6)])
def test_the_largest_picture_is_decoded_in_half_a_gibibyte(
    tmp_path: Path, mode: str, orientation: int
) -> None:
    import resource

    exif = Pillow.Exif()
    exif[0x0112] = orientation
    path = tmp_path / "large"
    image = Pillow.new(mode, (SIDE, SIDE), (128,) * len(mode))
    image.save(path, "JPEG" if mode == "CMYK" else "PNG", exif=exif, compress_level=1)
    program = (
        "import sys; from pathlib import Path\n"
        "from service.preprocess.image import Image\n"
        "from storage.records.signatures import TensorSpec\n"
        "image = Image.parse({'kind': 'image'}, TensorSpec('image', 'float32', (3, 16, 16)))\n"
        "image.decode(Path(sys.argv[1]).read_bytes())\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", program, str(path)],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (LIMIT_BYTES, LIMIT_BYTES)),
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
