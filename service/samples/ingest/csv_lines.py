"""Reads the lines of an untrusted CSV in bounded memory."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from math import prod
from typing import IO

from service.preprocess.text_inputs import MAX_TEXT_BYTES
from service.samples.ingest.csv_header import wrong_csv
from storage.errors import Problem
from storage.records.models import Model

LINE_CHARACTERS, VALUE_CHARACTERS = 2**20, 32
"""Maximum size of a row: for everything but its values, and for each value."""
csv.field_size_limit(2 * MAX_TEXT_BYTES)  # of cells; rows are bounded below
Row = tuple[int, list[str]]
"""The number of a row's first line in the file, and its cells."""


def most_line_characters(model: Model, *, texts: int) -> int:
    """The maximum number of characters in a row, including line ends within quotes.

    texts: how many a row has instead of the inputs.
    """
    signature = model.signature
    values = prod(signature.target.shape)
    values += 0 if texts else sum(prod(spec.shape) for spec in signature.inputs)
    return LINE_CHARACTERS + VALUE_CHARACTERS * values + texts * MAX_TEXT_BYTES


class _Bounded:
    """Iterates over lines; no line, and no row of several lines, is longer than `most`.

    total: characters read so far.
    """

    def __init__(self, text: IO[str], most: int) -> None:
        self._text = text
        self._most = most
        self._row_began = 0
        self.total = 0

    def __iter__(self) -> Iterator[str]:
        while line := self._text.readline(self._most + 1):
            self.total += len(line)
            if self.total - self._row_began > self._most:
                raise csv.Error(f"a row has at most {self._most} characters; is a quote open?")
            yield line

    def next_row(self) -> None:
        """Record that a row is complete."""
        self._row_began = self.total


def read_lines(text: IO[str], *, most_characters: int) -> Iterator[Row]:
    """Line number and cells of each line that is not empty. text: opened with newline="".

    Raises InvalidInput if it is not a CSV in UTF-8.
    """
    lines = _Bounded(text, most_characters)
    reader = csv.reader(lines)
    last = 0
    try:
        for cells in reader:
            lines.next_row()
            line, last = last + 1, reader.line_num
            if cells:
                yield line, cells
    except UnicodeDecodeError as error:
        at = text.buffer.tell() - len(error.object) + error.start  # type: ignore[attr-defined]
        detail = f"line {last + 1} or a later one is not UTF-8: byte {at} of the file"
        raise wrong_csv(Problem(f"/{last + 1}", detail)) from error
    except csv.Error as error:
        raise wrong_csv(Problem(f"/{last + 1}", f"line {last + 1}: {error}")) from error
