"""Draws the scenes: parcels on a conveyor from above, as two cameras see them.

No photographs with boxes were at hand that could be committed, so the scenes are drawn; the same
seed draws the same. The old camera sees colours under white lamps. The new one hangs lower, its
lamps are yellow, the belt is a lighter one, and what the conveyor carries past is smeared.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

CLASSES = ("carton", "envelope", "tube")
SIZE = (144, 96)
"""Width and height."""
SIDES = {
    "carton": ((20, 30), (17, 26)),
    "envelope": ((19, 27), (13, 17)),
    "tube": ((30, 42), (6, 9)),
}
"""Of each class: from and to which length and width, in pixels of the old camera."""
COLOURS = {"carton": (168, 122, 78), "envelope": (226, 222, 210), "tube": (112, 96, 84)}
BELTS = {"old": (58, 62, 66), "new": (76, 82, 80)}
LAMPS = {"old": (1.0, 1.0, 1.0), "new": (1.0, 0.93, 0.72)}
CAMERAS = ("old", "new")
NEARER = 1.25
"""How much larger the new camera sees."""
MOST, TRIES = 6, 40


class Scene(NamedTuple):
    """A photo as JPEG, and its boxes as labels have them."""

    photo: bytes
    boxes: list[dict[str, Any]]


def draw(count: int, *, seed: int, camera: str) -> list[Scene]:
    """Scenes from a seed, each with other parcels."""
    generator = np.random.default_rng([seed, CAMERAS.index(camera)])
    return [_scene(generator, camera) for _ in range(count)]


def _scene(generator: np.random.Generator, camera: str) -> Scene:
    belt = np.array(BELTS[camera])
    picture = Image.new("RGB", SIZE, _ink(belt))
    pen = ImageDraw.Draw(picture)
    for x in range(int(generator.integers(0, 12)), SIZE[0], 12):
        pen.line((x, 0, x, SIZE[1]), fill=_ink(belt * 0.85))
    boxes: list[dict[str, Any]] = []
    wanted = generator.integers(1, MOST + 1)
    for _ in range(TRIES):
        if len(boxes) == wanted:
            break
        kind = CLASSES[generator.integers(len(CLASSES))]
        corners = _corners(generator, kind, NEARER if camera == "new" else 1.0)
        (left, top), (right, bottom) = corners.min(axis=0), corners.max(axis=0)
        box = [round(float(each), 1) for each in (left, top, right - left, bottom - top)]
        if min(left, top, SIZE[0] - right, SIZE[1] - bottom) < 1 or _overlap(box, boxes):
            continue
        _parcel(pen, corners, kind, generator)
        boxes.append({"box": box, "label": kind})
    return Scene(_photo(picture, generator, camera), boxes)


def _corners(generator: np.random.Generator, kind: str, scale: float) -> np.ndarray:
    """(4, 2) of a turned rectangle somewhere."""
    length, width = (generator.uniform(*each) * scale for each in SIDES[kind])
    angle = generator.uniform(-0.35, 0.35) + generator.integers(2) * np.pi / 2
    along = np.array([np.cos(angle), np.sin(angle)]) * length / 2
    across = np.array([-np.sin(angle), np.cos(angle)]) * width / 2
    middle = generator.uniform((0, 0), SIZE)
    return np.array(
        [middle + a * along + b * across for a, b in ((-1, -1), (1, -1), (1, 1), (-1, 1))]
    )


def _overlap(box: Sequence[float], others: Sequence[dict[str, Any]]) -> bool:
    x, y, width, height = box
    return any(
        x < ox + owidth and ox < x + width and y < oy + oheight and oy < y + height
        for ox, oy, owidth, oheight in (other["box"] for other in others)
    )


def _parcel(
    pen: ImageDraw.ImageDraw, corners: np.ndarray, kind: str, generator: np.random.Generator
) -> None:
    """With tape on cartons, print on envelopes and a shine on tubes."""
    colour = np.array(COLOURS[kind]) * generator.uniform(0.85, 1.1)
    pen.polygon([(float(x), float(y)) for x, y in corners], fill=_ink(colour))
    begin, end = corners[[0, 3]].mean(axis=0), corners[[1, 2]].mean(axis=0)
    if kind == "envelope":
        begin, end = begin + (end - begin) * 0.55, begin + (end - begin) * 0.9
    tint = {"carton": 1.25, "envelope": 0.45, "tube": 1.6}[kind]
    pen.line((*begin.tolist(), *end.tolist()), fill=_ink(colour * tint), width=2)


def _ink(colour: np.ndarray) -> tuple[int, int, int]:
    red, green, blue = colour.clip(0, 255).astype(int).tolist()
    return red, green, blue


def _photo(picture: Image.Image, generator: np.random.Generator, camera: str) -> bytes:
    """With noise and, of the new camera, smeared along the conveyor."""
    pixels = np.asarray(picture.filter(ImageFilter.GaussianBlur(0.5)), np.float64)
    if camera == "new":
        pixels = np.mean([np.roll(pixels, number, axis=1) for number in range(-1, 2)], axis=0)
    light = (pixels * LAMPS[camera] + generator.normal(0, 7, pixels.shape)) * generator.uniform(
        0.85, 1.1
    )
    buffer = io.BytesIO()
    Image.fromarray(light.clip(0, 255).astype(np.uint8)).save(buffer, "JPEG", quality=90)
    return buffer.getvalue()


def write(scenes: Sequence[Scene], folder: Path) -> Path:
    """Photos and COCO's JSON of their boxes, as `honed samples add` takes them."""
    (folder / "images").mkdir(parents=True)
    images, annotations = [], []
    for number, scene in enumerate(scenes):
        name = f"{number}.jpg"
        (folder / "images" / name).write_bytes(scene.photo)
        images.append({"id": number, "file_name": name, "width": SIZE[0], "height": SIZE[1]})
        for each in scene.boxes:
            kind = CLASSES.index(each["label"])
            box = {"image_id": number, "category_id": kind, "bbox": each["box"]}
            annotations.append({"id": len(annotations), **box})
    kinds = [{"id": at, "name": name} for at, name in enumerate(CLASSES)]
    document = {"images": images, "annotations": annotations, "categories": kinds}
    (folder / "instances.json").write_text(json.dumps(document))
    return folder
