"""Draws the scenes: gardens from above, with houses and trees, as two cameras see them.

No photographs with masks were at hand that could be committed, so the scenes are drawn; the same
seed draws the same. The old camera sees daylight. The new one sees near infrared in place of red,
in which leaves are the brightest, through a lens that darkens and blurs the corners.
"""

from __future__ import annotations

import io
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

CLASSES = ("ground", "house", "tree")
COLOURS = ((120, 110, 90), (200, 80, 60), (40, 130, 50))
"""Of the palette of masks, for people."""
SIZE = (96, 72)
"""Width and height."""
CAMERAS = ("old", "new")


class Scene(NamedTuple):
    """A photo as JPEG, its mask as PNG with a palette, and the class of each pixel."""

    photo: bytes
    mask: bytes
    classes: np.ndarray


def draw(count: int, *, seed: int, camera: str) -> list[Scene]:
    """Scenes from a seed, each another garden."""
    generator = np.random.default_rng([seed, CAMERAS.index(camera)])
    return [_scene(generator, camera) for _ in range(count)]


def _scene(generator: np.random.Generator, camera: str) -> Scene:
    classes = Image.new("P", SIZE)
    classes.putpalette([part for colour in COLOURS for part in colour])
    pen = ImageDraw.Draw(classes)
    width, height = SIZE
    for _ in range(generator.integers(1, 4)):
        _house(pen, generator.uniform((10, 10), (width - 10, height - 10)), generator)
    for _ in range(generator.integers(3, 8)):
        x, y = generator.uniform((0, 0), SIZE)
        radius = generator.uniform(4, 11)
        pen.ellipse((x - radius, y - radius, x + radius, y + radius), fill=2)
    indices = np.asarray(classes)
    return Scene(_photo(indices, generator, camera), _file(classes, "PNG"), indices)


def _house(pen: ImageDraw.ImageDraw, centre: np.ndarray, generator: np.random.Generator) -> None:
    """A turned rectangle."""
    sides, angle = generator.uniform(7, 15, 2), generator.uniform(0, np.pi)
    along = np.array([np.cos(angle), np.sin(angle)])
    across = np.array([-along[1], along[0]])
    corners = [
        centre + a * sides[0] * along + b * sides[1] * across
        for a, b in ((-1, -1), (1, -1), (1, 1), (-1, 1))
    ]
    pen.polygon([(float(x), float(y)) for x, y in corners], fill=1)


def _photo(indices: np.ndarray, generator: np.random.Generator, camera: str) -> bytes:
    """Each garden has its own soil, roofs and leaves, and each pixel some texture."""
    soil = np.array([generator.uniform(110, 170), generator.uniform(100, 150), 80])
    roof = np.array([generator.uniform(130, 210), generator.uniform(50, 110), 70])
    leaf = np.array([generator.uniform(30, 80), generator.uniform(90, 150), 45])
    texture = (
        generator.normal(0, 1, (*indices.shape, 1)) * np.array([9, 14, 26])[indices][..., None]
    )
    pixels = np.stack([soil, roof, leaf])[indices] + texture
    if camera == "new":
        infrared = np.array([95, 60, 215])[indices] + 0.5 * texture[..., 0]
        pixels = np.stack([infrared, pixels[..., 0] * 0.6, pixels[..., 1] * 0.8], axis=2)
    picture = Image.fromarray(pixels.clip(0, 255).astype(np.uint8))
    picture = picture.filter(ImageFilter.GaussianBlur(0.6 if camera == "old" else 1.1))
    light = np.asarray(picture) * generator.uniform(0.8, 1.15)
    if camera == "new":
        y, x = np.mgrid[-1 : 1 : SIZE[1] * 1j, -1 : 1 : SIZE[0] * 1j]
        light = light * (1 - 0.35 * (x**2 + y**2) / 2)[..., None]
    return _file(Image.fromarray(light.clip(0, 255).astype(np.uint8)), "JPEG")


def _file(picture: Image.Image, kind: str) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, kind, **({"quality": 92} if kind == "JPEG" else {}))
    return buffer.getvalue()
