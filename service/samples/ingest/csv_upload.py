"""Stores samples from CSV: a header line, then one sample per line, or rows of a recording."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import IO, Any

import numpy as np
from msgspec.structs import replace

from service import allocator
from service.samples.ingest import tensors
from service.samples.ingest.csv_header import Header, read_header, wrong_csv
from service.samples.ingest.csv_lines import Row, most_line_characters, read_lines
from service.samples.ingest.intake import (
    Faults,
    GoodSamples,
    IngestResult,
    Intake,
    UploadOptions,
    in_groups,
)
from service.samples.ingest.labels import SHOWN_CHARACTERS, parse_columns, sent_columns
from service.samples.ingest.texts import TextReader, reader_of
from service.samples.ingest.windows import cutter_of, row_signature
from service.samples.ingest.zip_reader import READ_BACK
from storage.arrays import NDArray
from storage.disk.durable import file_faults
from storage.errors import Problem, counted
from storage.records.models import Model
from storage.records.signatures import TensorSpec
from storage.store import Store

WANTED = {"f": "finite {}", "b": "true or false, 1 or 0", **dict.fromkeys("iu", "integers ({})")}
"""By the kind of an input's numbers."""


def store_csv(store: Store, model: Model, path: Path, options: UploadOptions) -> IngestResult:
    """Check and stage the lines in chunks, then store all of them, or the good ones.

    The column names of a model's first CSV are kept as its features. Raises InvalidInput with
    every bad line.
    """
    texts = reader_of(model)
    try:
        with (
            file_faults(READ_BACK),
            path.open(encoding="utf-8-sig", newline="") as text,
            Intake(store, model, options) as intake,
        ):
            table = CsvSamples(model, text, options, texts=texts)
            for chunk in table.chunks(intake.faults):
                intake.add(chunk)
            result = intake.commit(table.total)
        if result.rejected < table.total and table.columns.features is not None:
            _learn_features(store, model, table.columns.features)
        return replace(result, warnings=(*result.warnings, *table.warnings()))
    finally:
        allocator.trim()


class CsvSamples:
    """The samples of a CSV: its rows, or the windows of them. Raises InvalidInput.

    text: opened with newline="". texts: reads a model's texts, None for one of tensors. total: rows
    that were read.
    """

    def __init__(
        self,
        model: Model,
        text: IO[str],
        options: UploadOptions,
        *,
        texts: TextReader | None = None,
    ) -> None:
        self._texts = texts
        names = () if texts is None else texts.fields
        rows = row_signature(model.signature, model.preprocess)
        self._model = replace(model, signature=rows)
        self._lines = read_lines(
            text, most_characters=most_line_characters(model, texts=len(names))
        )
        self.total = 0
        self.columns = read_header(
            self._model,
            next(self._lines, (1, []))[1],
            csv_columns=options.csv_columns,
            ignore_columns=options.ignore_columns,
            texts=names,
        )
        self._cutter = cutter_of(
            model,
            self.columns.columns,
            split=options.columns.get("split"),
            features=self.columns.features or model.features,
        )

    def chunks(self, faults: Faults) -> Iterator[GoodSamples]:
        """Good samples, some at a time; the faults of others are added to `faults`."""
        for rows in in_groups(self._lines, lambda cells: sum(map(len, cells))):
            self.total += len(rows)
            chunk = _Chunk(self._model, self.columns, rows, self._texts)
            good, samples = chunk.check(faults)
            if self._cutter is None:
                yield samples
            else:
                yield from self._cutter.add(samples, good, len(rows))
        if self.total == 0:
            raise wrong_csv(Problem("/2", "there is no line behind the header"))
        if self._cutter is not None:
            yield from self._cutter.finish()

    def warnings(self) -> Iterator[str]:
        """Warnings about the windows, for people."""
        return iter(()) if self._cutter is None else self._cutter.warnings()


def _learn_features(store: Store, model: Model, names: tuple[str, ...]) -> None:
    """Keep the names, unless the model already has some."""
    store.models.change(
        model.name, lambda now: now if now.features else replace(now, features=names)
    )


class _Chunk:
    """Lines during conversion."""

    def __init__(
        self, model: Model, header: Header, rows: Sequence[Row], texts: TextReader | None
    ) -> None:
        self._texts = texts
        self._inputs = model.signature.inputs
        self._header = header
        self._parsers = {name: column.parse_cells for name, column in sent_columns(model).items()}
        self._rows = rows

    def check(self, faults: Faults) -> tuple[list[int], GoodSamples]:
        """The positions of the good lines, and their samples; the others' faults are reported."""
        problems: dict[int, list[Problem]] = {}
        cells = [self._whole(at, problems) for at in range(len(self._rows))]
        records = self._records(cells, problems)
        about: list[dict[str, Any]] = []
        places_of = self._header.columns
        for position, (line, _) in enumerate(self._rows):
            if position not in problems:
                row = cells[position]
                columns = {name: [row[at] for at in places] for name, places in places_of.items()}
                record = records[position] if isinstance(records, list) else b""
                values, complaints = parse_columns(self._parsers, columns, record)
                details = (f"line {line}: {complaint}" for _, complaint in complaints)
                if wrong := [Problem(f"/{line}", detail) for detail in details]:
                    problems[position] = wrong
                else:
                    about.append(values)
        for position in sorted(problems):
            faults.sample(problems[position])
        good = [position for position in range(len(cells)) if position not in problems]
        if isinstance(records, np.ndarray):
            return good, GoodSamples.of_rows(records[good], about)
        kept = [records[position] for position in good]
        return good, GoodSamples.of_parsed([*zip(kept, about, strict=True)])

    def _records(
        self, cells: list[list[str]], problems: dict[int, list[Problem]]
    ) -> NDArray[np.uint8] | list[bytes]:
        """One for each line; what those with problems hold means nothing."""
        if self._texts is None:
            inputs = zip(self._inputs, self._header.inputs, strict=True)
            parts = [self._numbers(cells, spec, columns, problems) for spec, columns in inputs]
            return np.concatenate(parts, axis=1)
        records = []
        for position, row in enumerate(cells):
            data, complaint = self._texts.joined(*(row[at] for at in self._header.inputs[0]))
            records.append(data)
            if complaint and position not in problems:
                line = self._rows[position][0]
                problems[position] = [Problem(f"/{line}", f"line {line}: {complaint}")]
        return records

    def _whole(self, position: int, problems: dict[int, list[Problem]]) -> list[str]:
        """The cells of a row; zeros if it has too few or too many."""
        line, cells = self._rows[position]
        if len(cells) == self._header.count:
            return cells
        detail = (
            f"line {line} has {counted(len(cells), 'column')}, the header has {self._header.count}"
        )
        problems[position] = [Problem(f"/{line}", detail)]
        return ["0"] * self._header.count

    def _numbers(
        self,
        cells: list[list[str]],
        spec: TensorSpec,
        columns: tuple[int, ...],
        problems: dict[int, list[Problem]],
    ) -> NDArray[np.uint8]:
        """(lines, input bytes); lines with a bad cell hold zeros."""
        text = [[row[column] for column in columns] for row in cells]
        kind = np.dtype(spec.dtype).kind
        if kind == "b":
            text = [
                [str(tensors.YES_NO.get(cell.strip().lower(), cell)) for cell in row]
                for row in text
            ]
        try:
            values = _all_numbers(text)
        except ValueError:
            values = self._one_by_one(text, columns, problems)
        converted, bad = tensors.convert(values, spec.dtype)
        if kind == "b":
            bad = (values != converted).any(axis=1)
        elif kind in "iu":
            bad = bad | (values != np.trunc(values)).any(axis=1)
            for at, column in np.argwhere(np.isfinite(values) & (np.abs(values) >= 2**53)).tolist():
                exact = Decimal(text[at][column])  # which float64 may have rounded
                try:
                    converted[at, column] = whole = int(exact)
                    bad[at] |= whole != exact
                except OverflowError:
                    bad[at] = True
        for position in np.flatnonzero(bad).tolist():
            if position not in problems:
                where = _first_bad(values[position], spec.dtype)
                line, shown = self._rows[position][0], text[position][where][:SHOWN_CHARACTERS]
                detail = (
                    f"line {line}: column {columns[where] + 1} holds "
                    f"{shown!r}; the model takes {WANTED[kind].format(spec.dtype)}"
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
                    values[position, index] = tensors.parse_number(cell)
                except ValueError:
                    line = self._rows[position][0]
                    column = columns[index] + 1
                    shown = repr(cell[:SHOWN_CHARACTERS]) if cell.strip() else "nothing"
                    detail = f"line {line}: column {column} holds {shown}, which is not a number"
                    problems.setdefault(position, []).append(Problem(f"/{line}", detail))
        return values


def _all_numbers(text: list[list[str]]) -> NDArray[np.float64]:
    """Raises ValueError if a cell may not be a number."""
    if any("_" in joined or not joined.isascii() for joined in map("".join, text)):
        raise ValueError("digits of other scripts, or grouped ones")
    return np.array(text, np.float64)


def _first_bad(row: NDArray[np.float64], dtype: str) -> int:
    with np.errstate(over="ignore", invalid="ignore"):
        kept = row.astype(dtype)
    bad = ~np.isfinite(kept) if np.dtype(dtype).kind == "f" else kept.astype(np.float64) != row
    return int(np.flatnonzero(bad)[0]) if bad.any() else 0
