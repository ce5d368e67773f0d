"""Reads labels that are boxes on a photo."""

from __future__ import annotations

from typing import Any, ClassVar

from service.preprocess.boxes.labels import BOXES, Box, StoredBoxes, beyond_photo
from service.samples.columns import Column, Unfitted, Value
from service.samples.ingest.json_value import read_json
from service.samples.mask_checks import MaskCheck
from storage.database.codec import encode
from storage.records.signatures import TargetSpec

BOX = ("box", "label")
OF_PREDICTIONS = {"probability"}
"""What a predicted box has besides, so that it can be sent back."""
WANTED = '{"boxes": [{"box": [x, y, width, height], "label": CLASS}]} in the photo\'s own pixels'
FARTHEST = 2**31
"""Of any number of a box."""


class BoxReader(Column):
    """Labels of photos. check: knows the sizes of these."""

    name = "label"
    schema: ClassVar = {"description": WANTED}

    def __init__(self, target: TargetSpec, check: MaskCheck | None = None) -> None:
        self._most = target.shape[0]
        self._classes = target.box_classes or 0
        self._index = {name: index for index, name in enumerate(target.classes or ())}
        self._check = check

    def parse(self, value: Any) -> Value:
        """What it is once it is fitted to its photo; a text is its JSON."""
        if isinstance(value, str):
            try:
                value = read_json(value)
            except ValueError as error:
                return None, f"label: {error}; send {WANTED}"
        if value is None:
            return None, None
        if not isinstance(value, dict) or set(value) != {BOXES} or not _is_list(value[BOXES]):
            return None, f"label: send {WANTED}"
        entries = value[BOXES]
        if len(entries) > self._most:
            return None, f"label: {len(entries)} boxes, and the most on a photo is {self._most}"
        boxes: list[Box] = []
        for place, entry in enumerate(entries):
            box = self._box(entry)
            if isinstance(box, str):
                return None, f"label: box {place} {box}"
            boxes.append(box)
        return _SentBoxes(tuple(boxes), self._check), None

    def _box(self, value: Any) -> Box | str:
        """A box, or what is wrong with it."""
        if not isinstance(value, dict) or set(value) - OF_PREDICTIONS != {*BOX}:
            return f"is no object of {' and '.join(BOX)} alone; send {WANTED}"
        box, label = (value[name] for name in BOX)
        if not _is_list(box) or len(box) != 4 or not all(map(_is_number, box)):
            return "is not four finite numbers, x, y, width and height in pixels"
        x, y, width, height = map(float, box)  # 71 and 71.0 are one box
        if width <= 0 or height <= 0:
            return f"is {width:g} wide and {height:g} high, which is no area"
        index = self._index.get(label) if isinstance(label, str) else label
        if type(index) is not int or not 0 <= index < self._classes:
            known = ", ".join(map(repr, [*self._index][:20])) or f"0 to {self._classes - 1}"
            return f"has the label {str(label)[:100]!r}, and the model's classes are {known}"
        return x, y, width, height, index


class _SentBoxes(Unfitted, frozen=True):
    boxes: tuple[Box, ...]
    check: MaskCheck | None

    def fitted(self, record: bytes) -> Value:
        assert self.check is not None
        size, fault = self.check.size_of(record)
        if size is None:
            return None, fault
        for place, box in enumerate(self.boxes):
            if wrong := beyond_photo(box, size):
                return None, f"label: box {place} {wrong}"
        return encode(StoredBoxes(size, self.boxes)), None


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) < FARTHEST
