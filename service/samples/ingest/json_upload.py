"""Stores samples from JSON: one object, `{"samples": [ … ]}`, `{"recording": [ … ]}`, or lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
from msgspec.structs import replace

from service import allocator
from service.errors import InvalidInput, TooLarge
from service.samples.ingest import tensors
from service.samples.ingest.intake import (
    GoodSamples,
    IngestResult,
    Intake,
    UploadOptions,
    in_groups,
)
from service.samples.ingest.json_value import members_of, read_body, read_json
from service.samples.ingest.labels import SENT, parse_columns, sent_columns
from service.samples.ingest.spans import SPANS, SpanReader, with_label
from service.samples.ingest.texts import TextReader, reader_of
from service.samples.ingest.windows import cutter_of, row_signature
from service.samples.ingest.zip_reader import READ_BACK
from storage.disk.durable import file_faults
from storage.errors import Problem, pointer
from storage.records.models import Model
from storage.store import Store

RECORDING = "recording"
"""The field of a body that holds the rows of one, which are cut into windows."""
MAX_LINES = 1_000_000
ParsedSample = tuple[bytes, dict[str, Any]]
"""The record of a valid sample, and its columns."""


def store_json(store: Store, model: Model, body: bytes, options: UploadOptions) -> IngestResult:
    """Check every sample, then store all of them, or the good ones.

    Raises InvalidInput with every bad sample.
    """
    content = read_body(body)
    if isinstance(content, dict) and RECORDING in content:
        return _store_recording(store, model, content, options)
    parser = SampleParser(model, reader_of(model))
    if isinstance(content, list):
        raise _wrong_body("", 'several samples are an object, {"samples": […]}')
    samples, prefix = members_of(content, "samples", _wrong_body)
    with Intake(store, model, options) as intake:
        parsed = (
            parser.parse(sample, at=prefix and f"{prefix}/{position}")
            for position, sample in enumerate(samples)
        )
        _add(intake, parsed)
        return intake.commit(len(samples))


def store_jsonl(
    store: Store, model: Model, path: Path, options: UploadOptions, *, max_line_bytes: int
) -> IngestResult:
    """Check and stage JSON Lines, a sample each, in groups; then store all, or the good ones.

    Raises InvalidInput with every bad line, TooLarge.
    """
    parser, total = SampleParser(model, reader_of(model)), 0
    try:
        with (
            file_faults(READ_BACK),
            path.open("rb") as file,
            Intake(store, model, options) as intake,
        ):
            for group in in_groups(_lines(file, max_line_bytes), len):
                _add(intake, (_parse_line(parser, line, number) for number, line in group))
                total += len(group)
            if total == 0:
                detail = "send at least one line, with a sample"
                raise InvalidInput.at("", detail, title="there is no sample")
            return intake.commit(total)
    finally:
        allocator.trim()


def _add(intake: Intake, samples: Iterable[tuple[ParsedSample | None, list[Problem]]]) -> None:
    """Stage those that were parsed, and note what is wrong with the others."""
    good: list[ParsedSample] = []
    for parsed, problems in samples:
        if parsed is None:
            intake.faults.sample(problems)
        else:
            good.append(parsed)
    intake.add(GoodSamples.of_parsed(good))


def _store_recording(
    store: Store, model: Model, content: dict[str, Any], options: UploadOptions
) -> IngestResult:
    """Cut its rows into windows. Raises InvalidInput with every bad row."""
    cutter = cutter_of(model, (), split=options.columns.get("split"), features=model.features)
    rows, others = content[RECORDING], sorted(set(content) - {RECORDING})
    if cutter is None:
        wanted = "a model with preprocess of kind windows takes recordings; send inputs"
        raise _wrong_body(f"/{RECORDING}", wanted)
    if others:
        raise _wrong_body(
            pointer(others[0]), f"{RECORDING} is the only field; ?split= names a split"
        )
    if not isinstance(rows, list):
        raise _wrong_body(f"/{RECORDING}", "a recording is a list of rows, each a list of numbers")
    (spec,) = row_signature(model.signature, model.preprocess).inputs
    with Intake(store, model, options) as intake:
        good: dict[int, bytes] = {}
        for place, row in enumerate(rows):
            record = tensors.parse(row, spec)
            if isinstance(record, str):
                intake.faults.sample([Problem(f"/{RECORDING}/{place}", f"row {place} {record}")])
            else:
                good[place] = record.tobytes()
        records = np.frombuffer(b"".join(good.values()), np.uint8).reshape(
            len(good), tensors.input_bytes(spec)
        )
        samples = GoodSamples(records, {"label": [None] * len(good)})
        for windows in (*cutter.add(samples, [*good], len(rows)), *cutter.finish()):
            intake.add(windows)
        result = intake.commit(len(rows))
        return replace(result, warnings=(*result.warnings, *cutter.warnings()))


class SampleParser:
    """Parses samples of one model and finds every error in them. texts: reads its texts, if any."""

    def __init__(self, model: Model, texts: TextReader | None = None) -> None:
        self._texts = texts
        content = ("inputs",) if texts is None else texts.fields
        self._holds = (
            f"a sample is an object with {' and '.join(content)}, and a label if it has one"
        )
        self._target = model.signature.target
        named = {SPANS} if self._target.span_types else set()
        self._fields = frozenset({*content, *named, *(column.name for column in SENT)})
        self._inputs = model.signature.inputs
        self._parsers = {name: column.parse for name, column in sent_columns(model).items()}

    def parse(self, sample: Any, *, at: str) -> tuple[ParsedSample | None, list[Problem]]:
        """The sample, or None and its errors. at: JSON pointer of the sample."""
        if not isinstance(sample, dict):
            return None, [Problem(at, self._holds)]
        problems = [
            Problem(
                at + pointer(name), f"unknown field {name!r}; a sample has {sorted(self._fields)}"
            )
            for name in sample
            if name not in self._fields
        ]
        if self._texts is None:
            record = self._record(sample.get("inputs"), at, problems)
        else:
            record = self._texts.read(sample, at, problems)
        fields, label, wrong = with_label(self._target, sample)
        if wrong and label in self._fields:
            problems.append(Problem(f"{at}/{label}", wrong))
        columns, complaints = parse_columns(self._parsers, fields, record)
        for name, complaint in complaints:
            named = label if name == SpanReader.name else name
            problems.append(Problem(f"{at}/{named}", complaint))
        return (None, problems) if problems else ((record, columns), [])

    def _record(self, inputs: Any, at: str, problems: list[Problem]) -> bytes:
        if not isinstance(inputs, dict):
            names = [spec.name for spec in self._inputs]
            problems.append(Problem(f"{at}/inputs", f"inputs is an object that holds {names}"))
            return b""
        known = {spec.name for spec in self._inputs}
        for name in inputs:
            if name not in known:
                detail = f"the model has no input {name!r}; it has {sorted(known)}"
                problems.append(Problem(at + pointer("inputs", name), detail))
        parts = []
        for spec in self._inputs:
            if spec.name not in inputs:
                problems.append(Problem(f"{at}/inputs", f"input {spec.name!r} is missing"))
                continue
            tensor = tensors.parse(inputs[spec.name], spec)
            if isinstance(tensor, str):
                where = at + pointer("inputs", spec.name)
                problems.append(Problem(where, f"input {spec.name!r} {tensor}"))
            else:
                parts.append(tensor.tobytes())
        return b"".join(parts)


def _wrong_body(place: str, detail: str) -> InvalidInput:
    return InvalidInput.at(place, detail, title="the batch cannot be read")


def _parse_line(
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


def _lines(file: IO[bytes], max_line_bytes: int) -> Iterator[tuple[int, bytes]]:
    """Lines that are not empty, with their numbers in the file, from 1. Raises TooLarge."""
    for number, line in enumerate(iter(partial(file.readline, max_line_bytes + 1), b""), 1):
        if len(line) > max_line_bytes or number > MAX_LINES:
            told = f"at most {MAX_LINES} lines, each of at most {max_line_bytes} bytes"
            raise TooLarge(f"JSON Lines have {told}; line {number} is beyond that, send several")
        if line.strip():
            yield number, line
