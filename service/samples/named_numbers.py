"""Labels of several numbers with names, of which some may not be known: they are stored as NaN."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from msgspec import Struct

from service.samples.ingest.tensors import YES_NO, parse_number
from storage.arrays import NDArray
from storage.records.samples import Label
from storage.records.signatures import TargetSpec

SHOWN_CHARACTERS, SHOWN_NAMES = 100, 20


class NamedNumbers(Struct, frozen=True):
    """How labels of one target are read by name. are_yes_no: whether true and false are numbers."""

    target: TargetSpec
    are_yes_no: bool

    @property
    def may_lack_some(self) -> bool:
        """Whether a label may lack numbers: only if the model's loss leaves them out."""
        return self.target.may_ignore

    def in_order(self, parts: Mapping[str, Any]) -> list[Any] | str:
        """The numbers in the order of their names, None for one that is not known; or what is wrong
        with the names, and with what is no number.
        """
        names = self.target.number_names
        known_names = frozenset(names)
        for name, value in parts.items():
            if name not in known_names:
                known = ", ".join(map(repr, names[:SHOWN_NAMES]))
                return f"names {name[:SHOWN_CHARACTERS]!r}, which is none of {known}"
            kinds = (int, float, bool) if self.are_yes_no else (int, float)
            if value is not None and type(value) not in kinds:
                shown = str(value)[:SHOWN_CHARACTERS]
                return f"says {shown!r} of {name!r}, which is no number"
        lacking = [name for name in names if parts.get(name) is None]
        if lacking and not self.may_lack_some:
            return f"lacks {lacking[0]!r}; this model learns whole labels, so send all numbers"
        numbers = map(parts.get, names)
        return [int(number) if isinstance(number, bool) else number for number in numbers]

    def merged(self, parts: Mapping[str, Any], stored: Label) -> Label:
        """The stored label with these numbers, which are in order; None makes one unknown."""
        numbers = np.full(self.target.shape, np.nan, "<f4")
        if isinstance(stored, bytes):
            numbers[:] = np.frombuffer(stored, "<f4")
        places = {name: place for place, name in enumerate(self.target.number_names)}
        for name, value in parts.items():
            numbers[places[name]] = np.nan if value is None else value
        return as_label(numbers)


def of_cells(cells: list[str], *, are_yes_no: bool, may_lack: bool) -> list[float | None] | str:
    """The numbers in a CSV's columns of a label, None for one that is not known; or what is wrong.

    may_lack: whether a cell may be empty.
    """
    numbers: list[float | None] = []
    for cell in cells:
        try:
            number = parse_number(cell) if cell else None
        except ValueError:
            number = YES_NO.get(cell.lower()) if are_yes_no else None
        if number is None and (cell or not may_lack):
            shown = repr(cell[:SHOWN_CHARACTERS]) if cell else "nothing"
            return f"one of its columns holds {shown}, which is not a number"
        numbers.append(number)
    return numbers


def as_label(numbers: NDArray[Any]) -> Label:
    """The label of these numbers; none if none is known."""
    return None if np.isnan(numbers).all() else numbers.astype("<f4").tobytes()


def or_none(numbers: NDArray[Any]) -> list[Any]:
    """The numbers in the fewest digits that give them back, None for one that is not known."""
    return [None if np.isnan(number) else float(str(number)) for number in numbers]
