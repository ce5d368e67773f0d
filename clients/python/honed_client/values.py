"""What apps hold, as requests carry it: inputs, labels, many samples at once."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

NPZ = "application/x-npz"
MEDIA_TYPES = {
    rb"\x89PNG": "image/png",
    rb"\xff\xd8": "image/jpeg",
    rb"RIFF.{4}WEBP": "image/webp",
    rb"RIFF.{4}WAVE": "audio/wav",
    rb"fLaC": "audio/flac",
}
"""By the first bytes of a file."""
T = TypeVar("T")


class File(NamedTuple):
    """A photo or a recording, as a part of a form."""

    name: str
    content: bytes
    media_type: str

    @property
    def body(self) -> dict[str, Any]:
        """As a request's body."""
        return {"content": self.content, "headers": {"Content-Type": self.media_type}}


def plain(value: Any) -> Any:
    """NumPy arrays and tensors as nested lists."""
    return value.tolist() if hasattr(value, "tolist") else value


def as_json(value: Any) -> bytes:
    """What holds arrays, tensors and NumPy's numbers at any depth. Raises TypeError, ValueError."""
    return json.dumps(
        value, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_listed
    ).encode()


def _listed(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"JSON cannot hold {type(value).__name__}")


def text(x: Any) -> dict[str, str] | None:
    """A text, or a pair of them, as an instance; None for what is none."""
    if isinstance(x, str):
        return {"text": x}
    if isinstance(x, tuple) and len(x) == 2 and all(isinstance(part, str) for part in x):
        return {"text": x[0], "text_pair": x[1]}
    return None


def file(x: Any) -> File | None:
    """A photo or a recording, of which x is the path or the bytes; None for what is none."""
    if isinstance(x, Path):
        return File(x.name, content := x.read_bytes(), media_type(content))
    return File("file", x, media_type(x)) if isinstance(x, bytes) else None


def media_type(content: bytes) -> str:
    """By its first bytes. Raises ValueError for other files than photos and recordings."""
    for first, kind in MEDIA_TYPES.items():
        if re.match(first, content, re.DOTALL):
            return kind
    raise ValueError("photos are PNG, JPEG or WebP, recordings WAV or FLAC; this is neither")


def each_of(make: Callable[[Any], T | None], xs: Any) -> list[T] | None:
    """What `text` or `file` makes of each of a list; None unless all are such."""
    if not isinstance(xs, (list, tuple)) or not xs:
        return None
    values = [value for value in map(make, xs) if value is not None]
    return values if len(values) == len(xs) else None


def files_body(files: Sequence[File], about: Mapping[str, Any]) -> dict[str, Any]:
    """The form of files as samples. about: label, key and weight, as far as they are given."""
    described = [{name: row[name] for name in about} for row in rows({"file": files, **about})]
    samples = ("samples", (None, as_json(described), "application/json"))
    return {"files": [*(("file", tuple(file)) for file in files), samples]}


def texts_body(instances: Sequence[dict[str, str]], about: Mapping[str, Any]) -> dict[str, Any]:
    """The body of many texts as samples. about: label, key and weight, as far as they are given."""
    samples = [{**row.pop("instance"), **row} for row in rows({"instance": instances, **about})]
    return {"json": {"samples": samples}}


def are_arrays(inputs: Mapping[str, Any]) -> bool:
    """Whether one of them is an array of NumPy or a tensor."""
    return any(hasattr(value, "__array__") for value in inputs.values())


def holds_text(array: Any) -> bool:
    """Whether an array is NumPy's and of texts."""
    return getattr(getattr(array, "dtype", None), "kind", None) == "U"


def npz(arrays: Mapping[str, Any]) -> bytes:
    """The arrays as a file of NumPy."""
    import numpy as np  # late: who has arrays has it

    buffer = io.BytesIO()
    named: dict[str, Any] = {name: np.asarray(value) for name, value in arrays.items()}
    np.savez(buffer, **named)
    return buffer.getvalue()


def rows(columns: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Columns of equal length as one dict for each row. Raises ValueError if they differ."""
    lists = {name: plain(column) for name, column in columns.items()}
    if len({len(column) for column in lists.values()}) > 1:
        lengths = ", ".join(f"{name} {len(column)}" for name, column in lists.items())
        raise ValueError(f"the columns differ in length: {lengths}")
    return [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)]


def is_numeric_text(label: Any) -> bool:
    """Whether the label is a number as text, whose meaning depends on the model."""
    return isinstance(label, str) and label.isascii() and label.isdecimal()


def samples_body(inputs: Mapping[str, Any], about: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """The body and headers of many samples. about: label, key and weight, as far as they are given.

    Arrays go as npz; lists, and labels that are missing or lists of names, as JSON.
    """
    if are_arrays(inputs) and all(map(_fits_npz, about.values())):
        return {"content": npz({**inputs, **about}), "headers": {"Content-Type": NPZ}}
    return {"json": {"samples": rows({"inputs": rows(inputs), **about})}}


def _fits_npz(column: Sequence[Any]) -> bool:
    """Whether an array can hold it: every sample has a value, and none several names, or numbers
    by name.
    """
    return not any(
        value is None
        or isinstance(value, Mapping)
        or (isinstance(value, (list, tuple)) and (not value or isinstance(value[0], str)))
        for value in plain(column)
    )


def instances_body(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The body and headers of many instances to predict: npz for arrays, else JSON."""
    if are_arrays(inputs):
        return {"content": npz(inputs), "headers": {"Content-Type": NPZ}}
    return {"json": {"instances": [{"inputs": row} for row in rows(inputs)]}}
