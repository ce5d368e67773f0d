"""Reads labels: class indices, class names, vectors, or numbers by name."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np

from service.preprocess import for_model
from service.preprocess.masks.labels import MOST_BYTES
from service.samples.columns import COLUMNS, Column, Unfitted, Value
from service.samples.ingest.boxes import BoxReader
from service.samples.ingest.json_value import read_json
from service.samples.ingest.spans import SpanReader
from service.samples.ingest.tensors import (
    UNREADABLE,
    convert,
    first,
    little_endian,
    parse,
    range_complaint,
    texts,
    type_complaint,
)
from service.samples.mask_checks import MaskCheck, SentMask
from service.samples.named_numbers import NamedNumbers, as_label, of_cells
from service.training.tasks import TASKS
from service.training.tasks.task import LearningTask
from storage.arrays import NDArray
from storage.database.codec import dump
from storage.records.models import Model
from storage.records.samples import Label
from storage.records.signatures import IGNORED, TargetSpec, TensorSpec

SHOWN_CHARACTERS = 100
NO_LABEL = "label: the model's loss takes none; leave it out"
NO_NUMBER = "label holds a number that is not finite; run lengths are whole ones"
WHOLE = re.compile(r"(\d+)\.0*", re.ASCII)
"""An index as written by programs that lack integers in columns with missing values."""


class LabelReader(Column):
    """Reads labels that a model's loss takes."""

    name = "label"
    schema: ClassVar = {
        "description": "Class index or name, numbers, maybe by name, spans of a text, mask, boxes, "
        "or null."
    }

    def __init__(self, target: TargetSpec, task: LearningTask) -> None:
        self._target = target
        self._range = task.label_range
        self._numbers = NamedNumbers(target, task.names_several) if target.number_names else None
        self._may_lack_some = self._numbers is not None and self._numbers.may_lack_some
        self._is_either = task.names_several
        self._names_several = task.names_several and target.classes is not None
        self._index = {name: i for i, name in enumerate(target.classes or ())}
        self._spec = TensorSpec(target.name, target.dtype, target.shape)
        self._is_index = not target.shape and target.num_classes is not None
        self._indices = range((self._is_index and target.num_classes) or 0)

    def parse(self, value: Any) -> Value:
        """A class index, a name, several names, numbers by name, a number or nested lists of them;
        None is a number that is not known, if labels may lack some.
        """
        if value is None or (type(value) is int and value in self._indices):
            return value, None
        if self._target.is_empty:
            return None, None if value == [] else NO_LABEL
        if isinstance(value, str) or self._are_names(value):
            return self._by_name(value)
        array = self._array(value)
        if isinstance(array, str):
            return None, f"label {array}"
        if complaint := self._complaint(array):
            return None, complaint
        return self._stored(array), None

    def _array(self, value: Any) -> NDArray[Any] | str:
        """Numbers as an array, NaN for those that are not known, or what is wrong with them."""
        if isinstance(value, dict) and self._numbers is not None:
            value = self._numbers.in_order(value)
            if isinstance(value, str):
                return value
        if not isinstance(value, list) and self._target.shape == (1,):
            value = [value]
        if self._is_either and isinstance(value, list):
            value = [int(number) if isinstance(number, bool) else number for number in value]
        unknown: list[int] = []
        if self._may_lack_some and isinstance(value, list):
            unknown = [at for at, number in enumerate(value) if number is None]
            value = [0 if number is None else number for number in value]
        array = parse(value, self._spec)
        if unknown and not isinstance(array, str):
            array[unknown] = np.nan
        return array

    def parse_text(self, text: str) -> Value:
        """A class name, a number, or JSON; empty for no label."""
        if not text or text in self._index:
            return self.parse(text or None)
        if self._is_index and (whole := WHOLE.fullmatch(text)):
            return self.parse_text(whole[1])
        try:
            value = read_json(text)
        except ValueError:
            value = text
        return self.parse(text if isinstance(value, str) else value)

    def parse_cells(self, cells: list[str]) -> Value:
        """The cells of all its columns; those of numbers make a list."""
        cells = [cell.strip() for cell in cells]
        if not any(cells):
            return None, None
        if len(cells) == 1:
            return self.parse_text(cells[0])
        numbers = of_cells(cells, are_yes_no=self._is_either, may_lack=self._may_lack_some)
        return (None, f"label: {numbers}") if isinstance(numbers, str) else self.parse(numbers)

    def array_complaint(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> str | None:
        """As of other columns; a label may have more axes."""
        if self._target.is_empty:
            return NO_LABEL
        is_flat = len(shape) == 1
        if dtype.kind == "U" and is_flat and self._target.classes and not self._target.shape:
            return None
        is_told = self._is_either and dtype.kind == "b"
        if not is_told and (complaint := type_complaint(dtype, self._target.dtype)):
            return f"label {complaint}"
        if (shape[1:] or (1,) * (is_flat and self._target.shape == (1,))) != self._target.shape:
            shown, wanted = list(shape[1:]), list(self._target.shape)
            return f"label has shape {shown} a sample, the model takes {wanted}"
        return None

    def read(self, rows: NDArray[Any]) -> tuple[list[Label], dict[int, str]]:
        """Labels of rows that passed `array_complaint`, and what is wrong, by row."""
        if rows.dtype.kind == "U":
            named = [
                (None, f"label: {UNREADABLE}") if name is None else self.parse(name or None)
                for name in texts(rows)
            ]
            return [label for label, _ in named], {
                i: complaint for i, (_, complaint) in enumerate(named) if complaint
            }
        rows = rows[:, None] if rows.ndim == 1 and self._target.shape == (1,) else rows
        unknown = np.isnan(rows) if self._may_lack_some and rows.dtype.kind == "f" else None
        rows = rows if unknown is None else np.where(unknown, 0, rows)
        converted, bad = convert(rows, self._target.dtype)
        beyond = self._out_of_range(converted).reshape(len(rows), -1).any(axis=1)
        complaints = {
            i: (None if bad[i] else self._complaint(converted[i]))
            or f"label {range_complaint(rows[i], self._target.dtype)}"
            for i in np.flatnonzero(bad | beyond).tolist()
        }
        if self._is_index:
            return converted.tolist(), complaints
        if unknown is not None:
            converted[unknown] = np.nan
        return [self._stored(row) for row in converted], complaints

    def _are_names(self, value: Any) -> bool:
        is_list = self._names_several and isinstance(value, list)
        return is_list and all(isinstance(entry, str) for entry in value)

    def _by_name(self, value: str | list[str]) -> tuple[Label, str | None]:
        """A class's name, or those of all that a sample has."""
        names = [value] if isinstance(value, str) else value
        name = next((named for named in names if named not in self._index), None)
        if name is None and self._names_several:
            return self._stored(np.array([known in names for known in self._index])), None
        if name is None and not self._target.shape:
            return self._index[names[0]], None
        shown = repr((name or names[0])[:SHOWN_CHARACTERS])
        if self._target.shape and self._target.num_classes is not None:
            size = list(self._target.shape)
            return None, f"label {shown} is one class; the model takes one at each place of {size}"
        if self._target.classes is None:
            return None, f"label {shown} is no finite number, and the model has no names of classes"
        if self._numbers is not None and not self._names_several:
            example = dump(dict.fromkeys(self._target.classes[:2], 0))
            return None, f"label {shown} is no number; send numbers by name, such as {example}"
        known = ", ".join(map(repr, self._target.classes[:20]))
        return None, f"label {shown} is not one of the model's classes: {known}"

    def _out_of_range(self, numbers: NDArray[Any]) -> NDArray[np.bool_]:
        """Which of the numbers of labels are."""
        outside = np.zeros(numbers.shape, dtype=bool)
        if self._target.num_classes is not None:
            outside = (numbers < 0) | (numbers >= self._target.num_classes)
            outside &= (numbers != IGNORED) | (not self._target.may_ignore)
        elif self._range is not None:
            low, high = self._range
            outside = (numbers < low) | (numbers > high)
            if self._is_either:
                outside |= (numbers > low) & (numbers < high)
        return np.asarray(outside)

    def _complaint(self, label: NDArray[Any]) -> str | None:
        if not (outside := self._out_of_range(label)).any():
            return None
        if self._target.num_classes is not None:
            known = f"the model has classes 0 to {self._target.num_classes - 1}"
            if self._target.may_ignore:
                known += f", and {IGNORED} is for positions that do not count"
        else:
            assert self._range is not None
            low, high = self._range
            values = f"{low} or {high}" if self._is_either else f"values from {low} to {high}"
            known = f"this loss takes {values}"
        return f"label {first(label, outside)} is out of range; {known}"

    def _stored(self, label: NDArray[Any]) -> Label:
        if self._is_index:
            return int(label)
        if self._may_lack_some:
            return as_label(label)
        return label.astype(little_endian(self._target.dtype)).tobytes()


class MaskReader(LabelReader):
    """Reads masks besides: a PNG in base64, and COCO's run lengths. check: of masks."""

    def __init__(
        self, target: TargetSpec, task: LearningTask, check: MaskCheck | None = None
    ) -> None:
        super().__init__(target, task)
        self._check = check

    def parse(self, value: Any) -> Value:
        """A `SentMask`, or what other labels are."""
        runs = [value] if isinstance(value, dict) and "counts" in value else value
        if isinstance(runs, list) and all(isinstance(run, dict) for run in runs):
            try:
                dump(runs)
            except ValueError:  # NaN or infinity, which Python reads, but JSON lacks
                return None, NO_NUMBER
            return SentMask(self._check, runs=tuple(runs)), None
        if not isinstance(value, dict):
            return super().parse(value)
        try:
            png = b64decode(value["png"], validate=True)
        except (LookupError, TypeError, ValueError):
            return None, 'label has "png" in base64, or "size" and "counts" of run lengths'
        return self._taken(png)

    def parse_file(self, png: bytes, photo: bytes) -> Value:
        """A PNG that came with its photo, as it is stored."""
        sent, complaint = self._taken(png)
        return (None, complaint) if sent is None else sent.fitted(photo)

    def _taken(self, png: bytes) -> tuple[SentMask | None, str | None]:
        if len(png) > MOST_BYTES:
            return None, f"label: a mask has at most {MOST_BYTES} bytes, this one has {len(png)}"
        return SentMask(self._check, png), None


SENT: tuple[type[Column], ...] = (LabelReader, *(column for column in COLUMNS if column.sent))
"""The columns of JSON, CSV and forms."""


def label_reader(model: Model, masks: MaskCheck | None = None) -> Column:
    """A reader of the labels that the model's loss takes. masks: checks masks and boxes."""
    target = model.signature.target
    if target.span_types:
        return SpanReader(target)
    if target.box_classes:
        return BoxReader(target, masks)
    of_images = any(step["kind"] == "image" for step in model.preprocess)  # a CSV's rows are none
    if of_images and for_model(model).masks(target) is not None:
        return MaskReader(target, TASKS[model.loss], masks)
    return LabelReader(target, TASKS[model.loss])


def columns_of(model: Model, masks: MaskCheck | None = None) -> dict[str, Column]:
    """The readers of a model's columns by name, in the order of errors; masks: see above."""
    label = label_reader(model, masks)
    return {LabelReader.name: label, **{column.name: column(model) for column in COLUMNS}}


def sent_columns(model: Model, masks: MaskCheck | None = None) -> dict[str, Column]:
    """Those of JSON, CSV and forms."""
    return {name: column for name, column in columns_of(model, masks).items() if column.sent}


def parse_columns(
    parsers: Mapping[str, Callable[[Any], Value]], fields: Mapping[str, Any], record: bytes
) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Values of one sample by column, None for none, and what is wrong with which.

    record: the sample's bytes, empty if these are wrong already.
    """
    values: dict[str, Any] = dict.fromkeys(parsers)
    complaints = []
    for name, parser in parsers.items():
        if (value := fields.get(name)) is not None:
            values[name], complaint = parser(value)
            if isinstance(values[name], Unfitted) and record:
                values[name], complaint = values[name].fitted(record)
            if complaint:
                complaints.append((name, complaint))
    return values, complaints
