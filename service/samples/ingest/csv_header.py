"""The header of a CSV: which column holds what."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from service.errors import InvalidInput
from storage.errors import Problem
from storage.records.models import Model
from storage.records.signatures import TensorSpec

LABEL, KEY, SPLIT = "label", "key", "split"
_INDEXED = re.compile(r"([^\[\]]+)\[([0-9]{1,9})\]")


@dataclass(frozen=True, slots=True)
class Columns:
    """Where in a line everything stands. inputs: for each input its columns, in flat order."""

    count: int
    inputs: tuple[tuple[int, ...], ...]
    label: tuple[int, ...]
    key: int | None
    split: int | None


def read_header(model: Model, names: Sequence[str], *, label_column: str | None) -> Columns:
    """What stands in which column.

    Columns named `input[0]`, `input[1]`, … may stand in any order; else a model's only input is
    the columns that are left, in their order. Raises InvalidInput.
    """
    names = [name.strip() for name in names]
    at = {name: position for position, name in enumerate(names)}
    if not any(names):
        raise wrong_csv(Problem("/1", "the first line names the columns"))
    if len(at) < len(names):
        twice = next(name for place, name in enumerate(names) if at[name] != place)
        raise wrong_csv(Problem("/1", f"two columns are named {twice[:100]!r}"))
    if len(names) == 1 and (other := next((each for each in ";\t" if each in names[0]), None)):
        detail = f"the columns are separated by {other!r}; separate them by commas"
        raise wrong_csv(Problem("/1", detail))
    label = _label_columns(model, at, label_column)
    key, split = (at.get(name) if at.get(name) not in label else None for name in (KEY, SPLIT))
    taken = {*label, key, split}
    rest = [position for position in range(len(names)) if position not in taken]
    inputs = _input_columns(model.signature.inputs, names, rest)
    return Columns(len(names), inputs, label, key, split)


def _label_columns(model: Model, at: dict[str, int], label_column: str | None) -> tuple[int, ...]:
    if label_column is None:
        return (at[LABEL],) if LABEL in at else ()
    wanted = [name.strip() for name in label_column.split(",")]
    problems = [
        Problem(
            "/query/label_column", f"there is no column {name[:100]!r}; there are {list(at)[:20]}"
        )
        for name in wanted
        if name not in at
    ]
    values = int(np.prod(model.signature.target.shape))
    if not problems and len(wanted) not in (1, values):
        detail = f"{len(wanted)} columns are named, a label of this model is {values} numbers"
        problems.append(Problem("/query/label_column", detail))
    if problems:
        raise wrong_csv(*problems)
    return tuple(at[name] for name in wanted)


def _input_columns(
    inputs: Sequence[TensorSpec], names: Sequence[str], rest: Sequence[int]
) -> tuple[tuple[int, ...], ...]:
    """For each input its columns in flat order."""
    sizes = {spec.name: int(np.prod(spec.shape)) for spec in inputs}
    places: dict[tuple[str, int], int] = {}
    for position in rest:
        match = _INDEXED.fullmatch(names[position])
        if match is not None and match[1] in sizes:
            places[match[1], int(match[2])] = position
    if places:
        missing = [
            f"{name}[{index}]"
            for name, size in sizes.items()
            for index in range(size)
            if (name, index) not in places
        ]
        known = set(places.values())
        strangers = [names[each] for each in rest if each not in known]
        if missing or strangers or len(places) != sum(sizes.values()):
            what = f"lacks {missing[:5]}" if missing else f"has too many columns: {strangers[:5]}"
            raise wrong_csv(Problem("/1", f"the header {what}"))
        return tuple(
            tuple(places[name, index] for index in range(size)) for name, size in sizes.items()
        )
    if len(inputs) > 1:
        detail = f"name the columns {inputs[0].name}[0], …: the model has {len(inputs)} inputs"
        raise wrong_csv(Problem("/1", detail))
    (size,) = sizes.values()
    if len(rest) != size:
        detail = f"{len(rest)} columns are left for input {inputs[0].name!r}, which takes {size}"
        raise wrong_csv(Problem("/1", f"{detail}: {[names[each] for each in rest][:20]}"))
    return (tuple(rest),)


def wrong_csv(*problems: Problem) -> InvalidInput:
    """The error for a CSV that does not fit."""
    return InvalidInput("the CSV cannot be read", problems=problems)
