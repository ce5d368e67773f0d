"""Reads bodies of prediction requests into tensors, checked like samples."""

from __future__ import annotations

import io
from codecs import BOM_UTF8
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from service.errors import InvalidInput, TooLarge
from service.prediction.frames import Tensors
from service.preprocess import for_model
from service.samples.ingest import tensors
from service.samples.ingest.csv_upload import CsvSamples
from service.samples.ingest.intake import Faults, UploadOptions, kept, stage
from service.samples.ingest.json_upload import SampleParser
from service.samples.ingest.json_value import members_of, read_body
from service.samples.ingest.npz import open_npz
from service.samples.ingest.npz_upload import NpzBatch
from service.samples.ingest.texts import TextReader
from storage.arrays import NDArray
from storage.errors import Problem, pointer
from storage.records.models import Model
from storage.records.samples import Split, StageResult
from storage.records.signatures import TensorSpec
from storage.store import Store


class Batch(Struct, frozen=True):
    """Inputs that fit the model. records: (n, record_bytes) uint8, rows as storage keeps them."""

    records: NDArray[np.uint8]

    def tensors(self, inputs: tuple[TensorSpec, ...]) -> Tensors:
        """Each input by its name, shape (n, …)."""
        parts = tensors.cut(self.records, inputs)
        return {spec.name: np.ascontiguousarray(part) for spec, part in parts}


KEPT_AT_ONCE = 1000
"""Inputs per upload: the store reports at most this many duplicates."""
Reader = Callable[[Model, bytes, int], Batch]
"""Takes a model, a body, and the maximum number of bytes unpacked."""


def read_json(model: Model, body: bytes, max_bytes: int) -> Batch:
    """`{"inputs": …}` or `{"instances": [{"inputs": …}, …]}`. Raises InvalidInput."""
    del max_bytes  # JSON is larger than its values
    instances, prefix = members_of(read_body(body), "instances", _wrong)
    parser = SampleParser(model)
    faults = Faults()
    records = []
    for position, instance in enumerate(instances):
        at = prefix and f"{prefix}/{position}"
        problems = _strangers(instance, at, ["inputs"])
        if not problems:
            parsed, problems = parser.parse(instance, at=at)
            if parsed is not None:
                records.append(parsed[0])
        if problems:
            faults.sample(problems)
    _refuse(faults, len(instances))
    flat = np.frombuffer(b"".join(records), np.uint8)
    return Batch(flat.reshape(len(records), -1))


def read_text(texts: TextReader, body: bytes) -> list[bytes]:
    """A text that is the body, without a byte order mark. Raises InvalidInput."""
    body = body.removeprefix(BOM_UTF8)
    if complaint := texts.complaint(body):
        raise _wrong("", complaint)
    return [body]


def read_texts(reader: TextReader, body: bytes) -> list[bytes] | None:
    """`{"text": …}` or `{"instances": [{"text": …, "text_pair": …}, …]}`; None for `inputs`.

    Raises InvalidInput.
    """
    instances, prefix = members_of(read_body(body), "instances", _wrong)
    if all(isinstance(instance, dict) and "inputs" in instance for instance in instances):
        return None
    faults = Faults()
    texts = []
    for position, instance in enumerate(instances):
        at = prefix and f"{prefix}/{position}"
        problems = _strangers(instance, at, reader.fields)
        texts.append(b"" if problems else reader.read(instance, at, problems))
        if problems:
            faults.sample(problems)
    _refuse(faults, len(instances))
    return texts


def read_csv_texts(model: Model, reader: TextReader, body: bytes) -> list[bytes]:
    """A header line, then one text or pair a row. A label is allowed. Raises InvalidInput."""
    faults = Faults()
    table = _csv(model, body, reader)
    chunks = [*table.chunks(faults)]
    _refuse(faults, table.total)
    texts = []
    for chunk in chunks:
        records = io.BytesIO(bytes(chunk.records))
        texts += [records.read(length) for length in chunk.lengths or ()]
    return texts


def _csv(model: Model, body: bytes, texts: TextReader | None = None) -> CsvSamples:
    """Columns that the model does not know may be the app's own, once it knows its features."""
    lines = io.TextIOWrapper(io.BytesIO(body), encoding="utf-8-sig", newline="")
    ignored = "*" if texts or model.features else None
    options = UploadOptions({"split": Split.TRAIN}, ignore_columns=ignored)
    return CsvSamples(model, lines, options, texts=texts)


def read_npz(model: Model, body: bytes, max_bytes: int) -> Batch:
    """One array per input, batch first, or the rows of a recording to cut into windows; `label` and
    `key` are allowed.

    Raises InvalidInput, TooLarge.
    """
    faults = Faults()
    with open_npz(io.BytesIO(body), max_bytes=max_bytes) as members:
        batch = NpzBatch(model, members, split=Split.TRAIN)
        chunks = [np.asarray(chunk.records) for chunk in batch.chunks(faults=faults)]
    _refuse(faults, batch.length)
    return Batch(np.concatenate(chunks))


def read_csv(model: Model, body: bytes, max_bytes: int) -> Batch:
    """A header line, then one instance per row, or the rows of a recording to cut into windows.

    A label is allowed. Raises InvalidInput, TooLarge.
    """
    faults, records, size = Faults(), [], 0
    table = _csv(model, body)
    for chunk in table.chunks(faults):
        records.append(np.asarray(chunk.records))
        size += records[-1].nbytes
        if size > max_bytes:
            raise TooLarge(f"its windows have more than {max_bytes} bytes; send fewer rows")
    _refuse(faults, table.total)
    if not records:
        raise _wrong("", "its rows make no window: give each of them the same split, or none")
    return Batch(np.concatenate(records))


READERS: dict[str, Reader] = {
    "application/json": read_json,
    "application/x-npz": read_npz,
    "text/csv": read_csv,
}
"""Reader by media type."""


def keep(
    store: Store, model: Model, inputs: Batch | Sequence[bytes], owner: str | None
) -> list[int]:
    """Store tensors or files as unlabelled samples; returns their ids, in order. Blocking.

    Inputs that the model already has keep their id; with an owner, only those that it has added.
    """
    rows = inputs.records if isinstance(inputs, Batch) else inputs
    ids: list[int] = []
    for start in range(0, len(rows), KEPT_AT_ONCE):
        some = rows[start : start + KEPT_AT_ONCE]
        with stage(store, model, UploadOptions(owner=owner)) as staging:
            if isinstance(some, np.ndarray):
                staging.add(some, [None] * len(some))
            else:
                files = for_model(model).files
                data, lengths = kept(files, b"".join(some), [*map(len, some)])
                staging.add(data, [None] * len(some), lengths=lengths)
            ids += _ids(staging.commit(), len(some))
    return ids


def _ids(stored: StageResult, count: int) -> list[int]:
    """The sample id of each of `count` inputs: a new one, or its duplicate's."""
    new = iter(range(stored.first_id or 0, (stored.last_id or -1) + 1))
    return [stored.twins[at] if at in stored.twins else next(new) for at in range(count)]


def _strangers(instance: Any, at: str, fields: Sequence[str]) -> list[Problem]:
    """What an instance may not have beside these fields."""
    shown = " and ".join(f'"{name}"' for name in fields)
    if not isinstance(instance, dict):
        return [Problem(at, f"an instance is an object that holds {shown}")]
    return [
        Problem(at + pointer(name), f"unknown field {name!r}; an instance holds {shown} alone")
        for name in instance
        if name not in fields
    ]


def _refuse(faults: Faults, total: int) -> None:
    if faults.samples:
        raise InvalidInput(faults.told(total, "instances"), problems=faults.listed())


def _wrong(place: str, detail: str) -> InvalidInput:
    return InvalidInput.at(place, detail, title="the body cannot be read")
