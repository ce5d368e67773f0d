"""Boxes as a label: what is stored of them, and how apps send them and are told them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from storage.database.codec import decode
from storage.records.signatures import TargetSpec

BOXES = "boxes"
ROUNDING_PIXELS = 0.01
"""By how much a box may be beyond its photo."""
Box = tuple[float, float, float, float, int]


class StoredBoxes(Struct, frozen=True):
    """A label. size: height and width of its photo as it is seen. boxes: each x, y, width and
    height in the photo's pixels, and the index of its class.
    """

    size: tuple[int, int]
    boxes: tuple[Box, ...]


def read_boxes(stored: bytes) -> StoredBoxes:
    """Those of a label."""
    return decode(stored, StoredBoxes)


def beyond_photo(box: Box, size: tuple[int, int]) -> str | None:
    """How a box is beyond a photo of this height and width; None if it is not."""
    x, y, width, height, _ = box
    beyond = max(-x, -y, x + width - size[1], y + height - size[0])
    if beyond <= ROUNDING_PIXELS:
        return None
    reach = f"from ({x:g}, {y:g}) to ({x + width:g}, {y + height:g})"
    return f"goes {reach}, and the photo has {size[1]} x {size[0]} pixels as it is seen"


def shown_boxes(label: bytes, target: TargetSpec) -> dict[str, Any]:
    """A stored label as apps send it."""
    boxes = [{"box": [*sides], "label": index} for *sides, index in read_boxes(label).boxes]
    return {BOXES: boxes if target.classes is None else named(boxes, target.classes)}


def named(boxes: Sequence[dict[str, Any]], names: Sequence[str]) -> list[dict[str, Any]]:
    """Boxes with the names of their classes in place of indices."""
    return [{**box, "label": names[box["label"]]} for box in boxes]
