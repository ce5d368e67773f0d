"""Boxes as COCO has them: one JSON of the photos, their boxes, and the classes.

Source: Lin et al. (2014), Microsoft COCO; https://cocodataset.org/#format-data
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

import msgspec
from msgspec import Struct

from cli.errors import Failure
from storage.database.codec import decode, dump

NAME = "instances.json"
FILES = ("instances*.json", "annotations/instances*.json", "_annotations.coco.json")
"""Where they are in a folder, as COCO itself and tools for labelling write them."""
PHOTOS = "images"

Boxes = list[dict[str, Any]]
"""Each with `box`, [x, y, width, height] in the photo's own pixels, and `label`, its class."""


class _Photo(Struct):
    id: int | str
    file_name: str
    width: int | None = None
    height: int | None = None


class _Class(Struct):
    id: int
    name: str


class _Annotation(Struct):
    image_id: int | str
    category_id: int
    bbox: tuple[float, float, float, float]
    iscrowd: int = 0


class _Document(Struct):
    images: list[_Photo]
    annotations: list[_Annotation]
    categories: list[_Class]


def files_of(folder: Path) -> list[Path]:
    """COCO's files in a folder."""
    return sorted(file for pattern in FILES for file in folder.glob(pattern))


def read(file: Path, folder: Path) -> dict[Path, Boxes]:
    """The boxes of each photo that the file names, without those of crowds.

    Photos are beside the file, in the folder's `images`, or in that which is named like the file:
    `val2017` of `instances_val2017.json`. Raises Failure.
    """
    try:
        document = decode(file.read_bytes(), _Document)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Failure(f"{file}: not as COCO writes it: {error}") from error
    names = {category.id: category.name for category in document.categories}
    places = (file.parent, folder / PHOTOS, folder / file.stem.removeprefix("instances_"))
    photos = {image.id: image for image in document.images}
    paths = {image.id: _path(image.file_name, places, file) for image in document.images}
    boxes: dict[Path, Boxes] = {path: [] for path in paths.values()}
    for at, each in enumerate(document.annotations):
        if each.image_id not in paths or each.category_id not in names:
            what = "image_id" if each.image_id not in paths else "category_id"
            told = f"{file}: /annotations/{at}/{what} is {getattr(each, what)!r}, which"
            raise Failure(f"{told} {file.name} does not list")
        if not each.iscrowd:
            box = _cut(each.bbox, photos[each.image_id])
            boxes[paths[each.image_id]].append({"box": box, "label": names[each.category_id]})
    return boxes


def _cut(bbox: Sequence[float], photo: _Photo) -> list[float]:
    """A box whose sides are beyond the photo's by less than a pixel, as tools round, ends there."""
    begins, sizes = [*bbox[:2]], [*bbox[2:]]
    for side, size in enumerate((photo.width, photo.height)):
        begin, end = begins[side], begins[side] + sizes[side]
        if size is not None and (-1 < begin < 0 or size < end < size + 1):
            begins[side] = max(begin, 0) if begin > -1 else begin
            sizes[side] = (min(end, size) if end < size + 1 else end) - begins[side]
    return begins + sizes


def _path(name: str, places: Sequence[Path], file: Path) -> Path:
    """Raises Failure if there is none in these places; no name leads out of them."""
    inner = PurePath(name)
    if not (inner.is_absolute() or ".." in inner.parts):
        for place in places:
            if os.path.isfile(place / inner):  # noqa: PTH113, the method raises for long names
                return place / inner
    where = ", ".join(dict.fromkeys(map(str, places)))
    raise Failure(f"{file}: it names the photo {name!r:.200}, which is not in {where}")


def write(
    folder: Path,
    photos: Mapping[PurePath, tuple[tuple[int, int], Boxes]],
    classes: Sequence[str | int],
) -> None:
    """The JSON beside the folder `images`. photos: height and width, and boxes, by place in it.

    classes: their names, or numbers as labels of a model without names have them.
    """
    ids = {name: at for at, name in enumerate(classes, 1)}
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    for number, (place, ((height, width), boxes)) in enumerate(photos.items(), 1):
        about = {"id": number, "file_name": place.as_posix(), "width": width, "height": height}
        images.append(about)
        for each in boxes:
            box = {"bbox": each["box"], "area": each["box"][2] * each["box"][3], "iscrowd": 0}
            ours = {"image_id": number, "category_id": ids[each["label"]]}
            annotations.append({"id": len(annotations) + 1, **ours, **box})
    categories = [{"id": at, "name": str(name)} for name, at in ids.items()]
    document = {"images": images, "annotations": annotations, "categories": categories}
    (folder / NAME).write_text(dump(document), encoding="utf-8")
