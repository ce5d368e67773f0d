"""Changes stored samples' columns, and reads one back."""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import Any

import numpy as np

from service.errors import InvalidInput
from service.preprocess import for_model
from service.preprocess.boxes.labels import shown_boxes
from service.preprocess.masks.labels import PNG, size_of
from service.preprocess.text_inputs import KIND
from service.samples.columns import ASKED, Unfitted
from service.samples.ingest.labels import columns_of
from service.samples.ingest.spans import with_label
from service.samples.ingest.tensors import cut, little_endian
from service.samples.mask_checks import MaskCheck, MaskChecks
from service.samples.named_numbers import NamedNumbers, or_none
from service.training.tasks import TASKS
from storage.arrays import NDArray
from storage.database.codec import load
from storage.errors import NotFound
from storage.records.models import Model
from storage.records.samples import SAMPLE_COLUMNS, Sample
from storage.records.signatures import TargetSpec
from storage.store import Store


def change_sample(
    store: Store,
    model: Model,
    sample_id: int,
    changes: dict[str, Any],
    *,
    owner: str | None = None,
    masks: MaskChecks,
) -> Sample:
    """Set columns of a sample, as JSON; None removes its label, so that the sample counts as one
    that came without, and leaves other columns alone. Numbers by name leave those alone that they
    do not name.

    owner: None for anybody's. Raises InvalidInput, NotFound, ChildDied.
    """
    values: dict[str, Any] = {}
    fields, label, wrong = with_label(model.signature.target, changes)
    with closing(MaskCheck(masks, model)) as check:
        for name, reader in columns_of(model, check).items():
            value, complaint = reader.parse(fields.get(name))
            if isinstance(value, Unfitted):
                value, complaint = value.fitted(store.samples.content(model.id, sample_id))
            is_label = name == "label"
            if complaint := (wrong if is_label and wrong else complaint):
                at = f"/{label if is_label else name}"
                raise InvalidInput.at(at, complaint, title=f"the {name} is wrong")
            if value is None and is_label and name in fields:
                values[name] = TASKS[model.loss].trains_on
            elif value is not None:
                values[name] = value
    target, parts = model.signature.target, fields.get("label")
    if isinstance(parts, dict) and target.number_names:
        numbers = NamedNumbers(target, are_yes_no=True)
        values["label"] = partial(numbers.merged, parts)
    return store.samples.update(model.id, sample_id, owner=owner, target=target, **values)


def shown_label(model: Model, label: int | bytes | None) -> Any:
    """A stored label as apps sent it: an index, a list of numbers, these by name, or None; of a
    mask its size.
    """
    if not isinstance(label, bytes):
        return label
    if label.startswith(PNG) and for_model(model).masks(model.signature.target) is not None:
        return {"size": [*size_of(label)], "bytes": len(label)}
    target = model.signature.target
    if target.span_types is not None:
        return load(label.decode())
    if target.box_classes:
        return shown_boxes(label, target)
    numbers = _numbers_of(target, label)
    if not target.number_names:
        return numbers.tolist()
    shown = or_none(numbers)
    several = TASKS[model.loss].names_several
    return shown if several else dict(zip(target.number_names, shown, strict=True))


def _numbers_of(target: TargetSpec, label: bytes) -> NDArray[Any]:
    return np.frombuffer(label, little_endian(target.dtype)).reshape(target.shape)


NPZ = "application/x-npz"
MAX_DIGITS = 18


def content(store: Store, model: Model, sample_id: int) -> tuple[bytes, str]:
    """One sample as it may be uploaded again, and its media type: a file, or else .npz."""
    sample = store.samples.get(model.id, sample_id)
    record = store.samples.content(model.id, sample_id)
    kind = for_model(model).files
    if kind is not None:
        return record, kind.media_types[0] if len(kind.media_types) == 1 else file_type(record)
    return _as_npz(model, sample, record), NPZ


def mask(store: Store, model: Model, sample_id: int) -> bytes:
    """The PNG of a sample's label. Raises NotFound."""
    label = store.samples.get(model.id, sample_id).label
    if not isinstance(label, bytes) or not label.startswith(PNG):
        raise NotFound(f"sample {sample_id} has no mask")
    return label


def file_type(data: bytes) -> str:
    """The media type of a stored file, by its first bytes."""
    kinds = {b"\x89PNG": "image/png", b"fLaC": "audio/flac"}
    riff = {b"WEBP": "image/webp", b"WAVE": "audio/wav"}
    return kinds.get(data[:4]) or riff.get(data[8:12], "image/jpeg")


def _as_npz(model: Model, sample: Sample, record: bytes) -> bytes:
    """Inputs and label, batch axis of 1."""
    parts = cut(np.frombuffer(record, np.uint8)[None], model.signature.inputs)
    arrays: dict[str, Any] = {spec.name: part for spec, part in parts}
    if sample.label is not None and not model.signature.target.is_empty:
        target, label = model.signature.target, sample.label
        arrays["label"] = np.array(
            [_numbers_of(target, label) if isinstance(label, bytes) else label]
        )
    for name in ASKED:
        value = getattr(sample, name)
        if value != SAMPLE_COLUMNS[name] and name not in arrays:
            arrays[name] = np.array([value])
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def text_filter(model: Model, text: str) -> Callable[[bytes], bool]:
    """Whether the text of a record holds this one, in any case.

    Raises InvalidInput for a model whose samples are no texts.
    """
    kind = for_model(model).files
    if kind is None or kind.kind != KIND:
        detail = f"the samples of {model.name!r} are no texts"
        raise InvalidInput.at("/query/text", detail, title="there is no text")
    sought = text.casefold()
    return lambda record: sought in record.decode(errors="replace").casefold()


def class_index(model: Model, label: str) -> int:
    """The class that a text names, by index or by name. Raises InvalidInput."""
    target, name = model.signature.target, model.name
    if not target.num_classes or target.shape:
        detail = f"a label of {name!r} is not one class, by which samples are found; leave it out"
    elif target.classes is not None and label in target.classes:
        return target.classes.index(label)
    elif label.isdecimal() and len(label) <= MAX_DIGITS and int(label) < target.num_classes:
        return int(label)
    else:
        detail = f"{label[:100]!r} is no class of {name!r}; see its target in /v1/models/{name}"
    raise InvalidInput.at("/query/label", detail, title="the label is wrong")
