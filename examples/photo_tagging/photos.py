"""Draws the photos: fruit on a table, as a hand-held camera in a kitchen would see it.

No camera was at hand that could be committed, so the pictures are drawn; the files are real: JPEG,
PNG and WebP in several sizes, some JPEGs turned by their EXIF orientation as phones write them.

    python examples/photo_tagging/photos.py FOLDER
"""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

CLASSES = ("apple", "banana", "pear")
NEW = "plum"
"""What the camera learns later; new_fruit.py."""
FORMATS = ("JPEG", "PNG", "WEBP")
SIZES = ((96, 128), (120, 90), (128, 128))
ORIENTATION = 0x0112
QUARTER_TURN = 6
"""EXIF: turn it a quarter clockwise to see it upright."""


@dataclass(frozen=True)
class Photo:
    """A file, and what is on it."""

    name: str
    content: bytes
    label: str


def take(count: int, *, seed: int, classes: Sequence[str] = CLASSES) -> list[Photo]:
    """Photos of each class in turn."""
    generator = np.random.default_rng(seed)
    return [_photo(number, classes, generator) for number in range(count)]


def _photo(number: int, classes: Sequence[str], generator: np.random.Generator) -> Photo:
    label = classes[number % len(classes)]
    form = FORMATS[int(generator.integers(len(FORMATS)))]
    picture = _scene(label, SIZES[int(generator.integers(len(SIZES)))], generator)
    options: dict[str, object] = {}
    if form == "JPEG" and generator.random() < 0.3:
        exif = Image.Exif()
        exif[ORIENTATION] = QUARTER_TURN
        options["exif"] = exif
        picture = picture.transpose(Image.Transpose.ROTATE_90)
    buffer = io.BytesIO()
    picture.save(buffer, form, **options)
    extension = {"JPEG": "jpg", "PNG": "png", "WEBP": "webp"}[form]
    return Photo(f"IMG_{number:04}.{extension}", buffer.getvalue(), label)


def _scene(label: str, size: tuple[int, int], generator: np.random.Generator) -> Image.Image:
    """One fruit on a table, somewhere near the middle, under some light."""
    table = generator.integers(90, 210, 3)
    picture = Image.new("RGB", size, tuple(int(each) for each in table))
    fruit = _fruit(label, int(min(size) * generator.uniform(0.55, 0.85)), generator)
    fruit = fruit.rotate(float(generator.uniform(-50, 50)), expand=True)
    left, top = (
        int((whole - part) / 2 + generator.uniform(-0.08, 0.08) * whole)
        for whole, part in zip(size, fruit.size, strict=True)
    )
    picture.paste(fruit, (left, top), fruit)
    picture = picture.filter(ImageFilter.GaussianBlur(float(generator.uniform(0.3, 1.2))))
    light = generator.uniform(0.6, 1.25) + generator.normal(0, 0.06, (size[1], size[0], 1))
    pixels = np.asarray(picture) * light
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))


def _fruit(label: str, side: int, generator: np.random.Generator) -> Image.Image:
    picture = Image.new("RGBA", (side, side))
    draw = ImageDraw.Draw(picture)
    green, red = generator.integers(150, 220), generator.integers(120, 230)
    skin = {
        "apple": (int(red), int(generator.integers(20, 160)), 30),
        "banana": (int(generator.integers(190, 240)), int(green), 40),
        "pear": (int(generator.integers(130, 200)), int(green), 50),
        NEW: (int(red) // 2, 40, int(green) // 2 + 20),
    }[label]

    def oval(left: float, top: float, right: float, bottom: float, fill: tuple[int, ...]) -> None:
        draw.ellipse([side * each for each in (left, top, right, bottom)], fill=fill)

    if label == "apple":
        oval(0.05, 0.12, 0.95, 0.95, skin)
    elif label == NEW:
        oval(0.12, 0.2, 0.88, 0.85, skin)
    elif label == "pear":
        oval(0.3, 0.0, 0.7, 0.55, skin)
        oval(0.15, 0.35, 0.85, 0.98, skin)
    else:
        oval(0.0, 0.2, 1.0, 0.95, skin)
        oval(0.0, -0.1, 1.0, 0.68, (0, 0, 0, 0))
    return picture


def main() -> None:
    """Write some to look at."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for photo in take(12, seed=0):
        (folder / photo.name).write_bytes(photo.content)


if __name__ == "__main__":
    main()
