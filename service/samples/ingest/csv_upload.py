"""Stores samples from CSV: a header line, then one sample per line, or rows of a recording."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from service import allocator
from service.samples.ingest import tensors
from service.samples.ingest.csv_header import Columns, read_header, wrong_csv
from service.samples.ingest.csv_lines import Row, in_groups, most_line_characters, read_lines
from service.samples.ingest.csv_windows import Cutter, Parsed, row_signature, windows_of
from service.samples.ingest.intake import Faults, IngestResult, Intake, UploadOptions
from service.samples.ingest.json_upload import key_complaint, label_reader
from service.samples.ingest.labels import SHOWN_CHARACTERS, Label, LabelReader
from service.samples.ingest.require import require_tensors
from service.samples.ingest.weights import WeightReader
from service.samples.ingest.zip_reader import READ_BACK
from storage.disk.durable import file_faults
from storage.errors import Problem
from storage.records.models import Model
from storage.records.samples import Split
from storage.records.signatures import TensorSpec
from storage.store import Store

if TYPE_CHECKING:
    from numpy.typing import NDArray

WHOLE = re.compile(r"\b(\d+)\.0*(?![\d.e])", re.ASCII | re.IGNORECASE)
"""A whole number as written by programs that lack integers in columns with missing values."""


def store_csv(store: Store, model: Model, path: Path, options: UploadOptions) -> IngestResult:
    """Check and stage the lines in chunks, then store all of them, or the good ones.

    The column names of a model's first CSV are kept as its features. Raises InvalidInput with
    every bad line.
    """
    require_tensors(model)
    try:
        with (
            file_faults(READ_BACK),
            path.open(encoding="utf-8-sig", newline="") as text,
            Intake(store, model, options) as intake,
        ):
            table = CsvSamples(model, text, options)
            for chunk in table.chunks(intake.faults):
                intake.add(
                    chunk.records,
                    chunk.labels,
                    key=chunk.keys,
                    split=[each or options.split for each in chunk.splits],
                    weights=chunk.weights,
                )
            result = intake.commit(table.total)
        if result.accepted and table.columns.features is not None:
            _learn_features(store, model, table.columns.features)
        return replace(result, warnings=(*result.warnings, *table.warnings()))
    finally:
        allocator.trim()


class CsvSamples:
    """The samples of a CSV: its rows, or the windows of them. Raises InvalidInput.

    text: opened with newline="". total: rows that were read.
    """

    def __init__(self, model: Model, text: IO[str], options: UploadOptions) -> None:
        kind = windows_of(model.signature, model.preprocess)
        rows = row_signature(model.signature, model.preprocess)
        self._model = replace(model, signature=rows)
        self._cutter = None if kind is None else Cutter(model, kind, split=options.split)
        self._lines = read_lines(text, most_characters=most_line_characters(model))
        self.total = 0
        self.columns = read_header(
            self._model,
            next(self._lines, (1, []))[1],
            label_column=options.label_column,
            ignore_columns=options.ignore_columns,
            weight_column=options.weight_column,
        )
        if kind is not None and self.columns.key is not None:
            detail = "a window has many rows, and so no key; ignore_columns leaves the column out"
            raise wrong_csv(Problem("/1", detail))

    def chunks(self, faults: Faults) -> Iterator[Parsed]:
        """Good samples, some at a time; the faults of others are added to `faults`."""
        for rows in in_groups(self._lines):
            self.total += len(rows)
            chunk = _Chunk(self._model, self.columns, rows)
            good = chunk.check(faults)
            parsed = Parsed(chunk.records, chunk.labels, chunk.keys, chunk.splits, chunk.weights)
            if self._cutter is None:
                yield parsed
            else:
                yield from self._cutter.add(parsed, good, len(rows))
        if self.total == 0:
            raise wrong_csv(Problem("/2", "there is no line behind the header"))
        if self._cutter is not None:
            self._cutter.require_a_window()

    def warnings(self) -> tuple[str, ...]:
        """Warnings about the windows, for people."""
        return () if self._cutter is None else self._cutter.warnings()


def _learn_features(store: Store, model: Model, names: tuple[str, ...]) -> None:
    """Keep the names, unless the model already has some."""
    store.models.change(
        model.name, lambda now: now if now.features else replace(now, features=names)
    )


class _Chunk:
    """Lines during conversion. records: (n, record bytes), the good ones."""

    def __init__(self, model: Model, columns: Columns, rows: Sequence[Row]) -> None:
        self._inputs = model.signature.inputs
        self._columns = columns
        self._label_reader = label_reader(model)
        self._weight_reader = WeightReader(model)
        self._vector = len(columns.label) > 1
        self._rows = rows
        self.records: NDArray[np.uint8] = np.empty((0, 0), np.uint8)
        self.labels: list[Label] = []
        self.keys: list[str | None] = []
        self.splits: list[Split | None] = []
        self.weights: list[float | None] = []

    def check(self, faults: Faults) -> list[int]:
        """Keep the good lines and return their positions; report the others to faults."""
        problems: dict[int, list[Problem]] = {}
        cells = [self._whole(at, problems) for at in range(len(self._rows))]
        parts = [
            self._numbers(cells, spec, columns, problems)
            for spec, columns in zip(self._inputs, self._columns.inputs, strict=True)
        ]
        for position, (line, _) in enumerate(self._rows):
            if position not in problems:
                self._about(line, cells[position], problems, position)
        for position in sorted(problems):
            faults.sample(problems[position])
        good = [position for position in range(len(cells)) if position not in problems]
        self.records = np.concatenate(parts, axis=1)[good]
        return good

    def _whole(self, position: int, problems: dict[int, list[Problem]]) -> list[str]:
        """The cells of a row; zeros if it has too few or too many."""
        line, cells = self._rows[position]
        if len(cells) == self._columns.count:
            return cells
        detail = f"line {line} has {len(cells)} columns, the header has {self._columns.count}"
        problems[position] = [Problem(f"/{line}", detail)]
        return ["0"] * self._columns.count

    def _numbers(
        self,
        cells: list[list[str]],
        spec: TensorSpec,
        columns: tuple[int, ...],
        problems: dict[int, list[Problem]],
    ) -> NDArray[np.uint8]:
        """(lines, input bytes); lines with a bad cell hold zeros."""
        text = [[row[column] for column in columns] for row in cells]
        try:
            values = _all_numbers(text)
        except ValueError:
            values = self._one_by_one(text, columns, problems)
        whole = np.dtype(spec.dtype).kind in "iub"
        converted, bad = tensors.convert(values, spec.dtype)
        if whole:
            bad = bad | (values != np.trunc(values)).any(axis=1)
        for position in np.flatnonzero(bad).tolist():
            if position not in problems:
                where = _first_bad(values[position], spec.dtype)
                line, shown = self._rows[position][0], text[position][where][:SHOWN_CHARACTERS]
                detail = (
                    f"line {line}: column {columns[where] + 1} holds "
                    f"{shown!r}; the model takes finite {spec.dtype}"
                )
                problems[position] = [Problem(f"/{line}", detail)]
        return converted.reshape(len(cells), -1).view(np.uint8)

    def _one_by_one(
        self,
        text: list[list[str]],
        columns: tuple[int, ...],
        problems: dict[int, list[Problem]],
    ) -> NDArray[np.float64]:
        values = np.zeros((len(text), len(columns)))
        for position, row in enumerate(text):
            for index, cell in enumerate(row):
                try:
                    values[position, index] = _number(cell)
                except ValueError:
                    line = self._rows[position][0]
                    column = columns[index] + 1
                    shown = repr(cell[:SHOWN_CHARACTERS]) if cell.strip() else "nothing"
                    detail = f"line {line}: column {column} holds {shown}, which is not a number"
                    problems.setdefault(position, []).append(Problem(f"/{line}", detail))
        return values

    def _about(
        self, line: int, cells: list[str], problems: dict[int, list[Problem]], position: int
    ) -> None:
        found: list[str] = []
        label, complaint = _label(self._label_reader, [cells[at] for at in self._columns.label])
        found += [complaint] if complaint else []
        key = self._cell(cells, self._columns.key) or None
        if key is not None and (complaint := key_complaint(key)):
            found.append(complaint)
        split = self._cell(cells, self._columns.split)
        if split not in ("", Split.TRAIN.value, Split.VALIDATION.value):
            found.append(f"split is train or validation, not {split[:SHOWN_CHARACTERS]!r}")
        weight, complaint = self._weight_reader.parse_text(self._cell(cells, self._columns.weight))
        found += [complaint] if complaint else []
        if found:
            problems[position] = [Problem(f"/{line}", f"line {line}: {each}") for each in found]
            return
        self.labels.append(label)
        self.keys.append(key)
        self.splits.append(Split(split) if split else None)
        self.weights.append(weight)

    @staticmethod
    def _cell(cells: list[str], at: int | None) -> str:
        return "" if at is None else cells[at].strip()


def _label(reader: LabelReader, cells: list[str]) -> tuple[Label, str | None]:
    cells = [cell.strip() for cell in cells]
    if not any(cells):
        return None, None
    text = cells[0] if len(cells) == 1 else f"[{','.join(cells)}]"
    label, complaint = reader.parse_text(text)
    if complaint and (whole := WHOLE.sub(r"\1", text)) != text:
        again, still = reader.parse_text(whole)
        return (label, complaint) if still else (again, None)
    return label, complaint


def _all_numbers(text: list[list[str]]) -> NDArray[np.float64]:
    """Raises ValueError if a cell may not be a number."""
    if any("_" in joined or not joined.isascii() for joined in map("".join, text)):
        raise ValueError("digits of other scripts, or grouped ones")
    return np.array(text, np.float64)


def _number(cell: str) -> float:
    """Parse a number by the usual rules of CSV, not by Python's. Raises ValueError."""
    if "_" in cell or not cell.strip().isascii():
        raise ValueError(cell)
    return float(cell)


def _first_bad(row: NDArray[np.float64], dtype: str) -> int:
    with np.errstate(over="ignore", invalid="ignore"):
        kept = row.astype(dtype)
    bad = ~np.isfinite(kept) if np.dtype(dtype).kind == "f" else kept.astype(np.float64) != row
    return int(np.flatnonzero(bad)[0]) if bad.any() else 0
