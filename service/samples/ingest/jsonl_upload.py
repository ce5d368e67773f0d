"""Stores samples from JSON Lines: each line is one sample, as `json_upload` takes it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import IO

from service import allocator
from service.errors import InvalidInput, TooLarge
from service.samples.ingest.intake import GoodSamples, IngestResult, Intake, UploadOptions
from service.samples.ingest.json_upload import ParsedSample, SampleParser
from service.samples.ingest.json_value import read_json
from service.samples.ingest.texts import reader_of
from service.samples.ingest.zip_reader import READ_BACK
from storage.disk.durable import file_faults
from storage.errors import Problem
from storage.records.models import Model
from storage.store import Store

MAX_LINES = 1_000_000
LINES_AT_ONCE = 2000
GROUP_BYTES = 8 * 2**20
Line = tuple[int, bytes]
"""Its number in the file, from 1, and its bytes."""


def store_jsonl(
    store: Store, model: Model, path: Path, options: UploadOptions, *, max_line_bytes: int
) -> IngestResult:
    """Check and stage the lines in groups, then store all of them, or the good ones.

    Raises InvalidInput with every bad line, TooLarge.
    """
    parser, total = SampleParser(model, reader_of(model)), 0
    try:
        with (
            file_faults(READ_BACK),
            path.open("rb") as file,
            Intake(store, model, options) as intake,
        ):
            for group in _groups(file, max_line_bytes):
                good: list[ParsedSample] = []
                for number, line in group:
                    parsed, problems = _parse(parser, line, number)
                    if parsed is None:
                        intake.faults.sample(problems)
                    else:
                        good.append(parsed)
                intake.add(GoodSamples.of_parsed(good))
                total += len(group)
            if total == 0:
                problem = Problem("", "send at least one line, with a sample")
                raise InvalidInput("there is no sample", problems=[problem])
            return intake.commit(total)
    finally:
        allocator.trim()


def _parse(
    parser: SampleParser, line: bytes, number: int
) -> tuple[ParsedSample | None, list[Problem]]:
    try:
        sample = read_json(line)
    except UnicodeDecodeError as error:
        byte = f"byte {error.start} is not UTF-8 (0x{line[error.start]:02x})"
        return None, [Problem(f"/{number}", f"line {number}: {byte}; send UTF-8")]
    except ValueError as error:
        return None, [Problem(f"/{number}", f"line {number} is not JSON: {error}")]
    parsed, problems = parser.parse(sample, at=f"/{number}")
    return parsed, [Problem(each.pointer, f"line {number}: {each.detail}") for each in problems]


def _groups(file: IO[bytes], max_line_bytes: int) -> Iterator[list[Line]]:
    """Lines that are not empty, some at a time. Raises TooLarge."""
    group: list[Line] = []
    size = number = 0
    while line := file.readline(max_line_bytes + 1):
        number += 1
        if len(line) > max_line_bytes or number > MAX_LINES:
            told = f"at most {MAX_LINES} lines, each of at most {max_line_bytes} bytes"
            raise TooLarge(f"JSON Lines have {told}; line {number} is beyond that, send several")
        if line.strip():
            group.append((number, line))
            size += len(line)
        if len(group) == LINES_AT_ONCE or size >= GROUP_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group
