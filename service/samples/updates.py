"""Changes stored samples (label, split, weight), and reads one back."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from service.errors import InvalidInput
from service.samples.ingest.json_upload import label_reader
from service.samples.ingest.require import takes_files
from service.samples.ingest.tensors import input_bytes, little_endian
from service.samples.ingest.weights import WeightReader
from storage.errors import Problem
from storage.records.models import Model
from storage.records.samples import UNSET, Sample, Split
from storage.samples.filter import SampleFilter
from storage.store import Store


def change_sample(
    store: Store,
    model: Model,
    sample_id: int,
    changes: dict[str, Any],
    *,
    owner: str | None = None,
) -> Sample:
    """Set label (None removes it), split, pin and weight of a sample; owner: None for anybody's.

    Raises InvalidInput, NotFound.
    """
    label: Any = UNSET
    if "label" in changes:
        label, complaint = label_reader(model).parse(changes["label"])
        if complaint:
            raise InvalidInput("the label is wrong", problems=[Problem("/label", complaint)])
    split = Split(changes["split"]) if changes.get("split") else UNSET
    weight, complaint = WeightReader(model).parse(changes.get("weight"))
    if complaint:
        raise InvalidInput("the weight is wrong", problems=[Problem("/weight", complaint)])
    pinned = changes["pinned"] if changes.get("pinned") is not None else UNSET
    return store.samples.update(
        model.id,
        sample_id,
        label=label,
        split=split,
        pinned=pinned,
        weight=UNSET if weight is None else weight,
        owner=owner,
        target=model.signature.target,
    )


def shown_label(model: Model, label: int | bytes | None) -> Any:
    """A stored label as apps sent it: an index, a list of numbers, or None."""
    if not isinstance(label, bytes):
        return label
    target = model.signature.target
    return np.frombuffer(label, little_endian(target.dtype)).reshape(target.shape).tolist()


NPZ = "application/x-npz"
MAX_DIGITS = 18


def content(store: Store, model: Model, sample_id: int) -> tuple[bytes, str]:
    """One sample as it may be uploaded again, and its media type: a file, or else .npz."""
    sample = store.samples.get(model.id, sample_id)
    record = store.samples.content(model.id, sample_id)
    if takes_files(model):
        return record, file_type(record)
    return _as_npz(model, sample, record), NPZ


def file_type(data: bytes) -> str:
    """The media type of a stored file, by its first bytes."""
    kinds = {b"\x89PNG": "image/png", b"fLaC": "audio/flac"}
    riff = {b"WEBP": "image/webp", b"WAVE": "audio/wav"}
    return kinds.get(data[:4]) or riff.get(data[8:12], "image/jpeg")


def sample_filter(
    model: Model, *, label: str | None = None, split: str | None = None, **conditions: Any
) -> SampleFilter:
    """A filter from an app's query. Raises InvalidInput for a label that is not a class."""
    return SampleFilter(
        label=class_index(model, label) if label is not None else None,
        split=Split(split) if split else None,
        **conditions,
    )


def _as_npz(model: Model, sample: Sample, record: bytes) -> bytes:
    """Inputs and label, batch axis of 1."""
    arrays: dict[str, Any] = {}
    start = 0
    for spec in model.signature.inputs:
        end = start + input_bytes(spec)
        flat = np.frombuffer(record[start:end], little_endian(spec.dtype))
        arrays[spec.name] = flat.reshape(1, *spec.shape)
        start = end
    if sample.label is not None and not model.signature.target.is_empty:
        arrays["label"] = np.array([shown_label(model, sample.label)])
    if sample.weight != 1 and "weight" not in arrays:
        arrays["weight"] = np.array([sample.weight])
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def class_index(model: Model, label: str) -> int:
    """The class that a text names, by index or by name. Raises InvalidInput."""
    target = model.signature.target
    if target.classes is not None and label in target.classes and target.num_classes:
        return target.classes.index(label)
    is_number = label.isdecimal() and len(label) <= MAX_DIGITS
    if is_number and target.num_classes and int(label) < target.num_classes:
        return int(label)
    detail = (
        f"{label[:100]!r} is no class of {model.name!r}; see its target in /v1/models/{model.name}"
    )
    raise InvalidInput("the label is wrong", problems=[Problem("/query/label", detail)])
