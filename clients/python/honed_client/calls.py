"""Requests and their answers without a connection, shared by both clients."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict
from urllib.parse import quote

import httpx

ENDED = ("succeeded", "failed", "cancelled")


class Prediction(TypedDict, total=False):
    """The prediction for one instance; docs/prediction.md. id: of the sample, if it was kept."""

    label: Any
    probability: float | None
    probabilities: list[Any]
    values: list[Any]
    top: dict[str, list[Any]]
    outputs: dict[str, Any]
    version: int
    id: int


class Sample(TypedDict, total=False):
    """A stored sample, without its content."""

    id: int
    key: str | None
    split: str
    label: Any
    pinned: bool
    weight: float


class Version(TypedDict, total=False):
    """An exported inference model."""

    model: str
    version: int
    sha256: str
    metrics: dict[str, Any]
    aliases: list[str]
    reason: str


class Job(TypedDict, total=False):
    """A training run."""

    id: int
    model: str
    state: str
    progress: dict[str, Any]
    version: int | None
    error: dict[str, str] | None


@dataclass(frozen=True)
class Call:
    """A request. At most one of json, content (bytes) and files (a form's parts) is its body."""

    method: str
    path: str
    json: Any = None
    params: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    content: bytes | None = None
    files: Mapping[str, Any] | None = None

    def options(self) -> dict[str, Any]:
        """The arguments for httpx."""
        bodies = {"json": self.json, "content": self.content, "files": self.files}
        body = {name: value for name, value in bodies.items() if value is not None}
        return {"params": dict(self.params), "headers": dict(self.headers), **body}


def model_path(name: str, *parts: object) -> str:
    """`/v1/models/digits/samples/3`."""
    return "/".join(["/v1/models", *(quote(str(part), safe="") for part in (name, *parts))])


def plain(value: Any) -> Any:
    """NumPy arrays and tensors as nested lists."""
    return value.tolist() if hasattr(value, "tolist") else value


def inputs_of(x: Any, description: Mapping[str, Any] | None) -> dict[str, Any]:
    """Inputs by name. description: of the model, needed if x is not a mapping.

    Raises ValueError if the model takes several inputs and x does not name them.
    """
    if isinstance(x, Mapping):
        return {name: plain(value) for name, value in x.items()}
    assert description is not None
    names = [each["name"] for each in description["inputs"]]
    if len(names) != 1:
        raise ValueError(f"the model takes {', '.join(names)}: give a dict of these")
    return {names[0]: plain(x)}


def label_of(label: Any, description: Mapping[str, Any] | None) -> Any:
    """The label to send: text of a number becomes one if the model's classes have no names."""
    if is_numeric_text(label) and description is not None:
        return label if description["target"]["classes"] else int(label)
    return plain(label)


def is_numeric_text(label: Any) -> bool:
    """Whether the label is a number as text, whose meaning depends on the model."""
    return isinstance(label, str) and label.isascii() and label.isdecimal()


def predict(name: str, inputs: dict[str, Any], *, keep: bool) -> Call:
    params = {"keep": "true"} if keep else {}
    return Call("POST", model_path(name, "predict"), {"inputs": inputs}, params)


def predicted(answer: Any) -> Prediction:
    found: Prediction = answer["predictions"][0]
    found["version"] = answer["version"]
    if answer.get("ids"):
        found["id"] = answer["ids"][0]
    return found


def add(name: str, inputs: dict[str, Any], label: Any, key: str | None) -> Call:
    sample = {"inputs": inputs, "label": label, **({"key": key} if key is not None else {})}
    return Call("POST", model_path(name, "samples"), sample)


def relabel(name: str, sample: int, label: Any) -> Call:
    return Call("PATCH", model_path(name, "samples", sample), {"label": label})


def train(name: str, hyperparameters: Mapping[str, Any]) -> Call:
    return Call("POST", model_path(name, "jobs"), dict(hyperparameters))


def newest(name: str, *, known: str | None, wait_s: int) -> Call:
    """Requests the file of `latest`. known: SHA-256 of the caller's file."""
    headers = {"If-None-Match": f'"{known}"'} if known else {}
    params = {"wait": wait_s} if wait_s and known else {}
    return Call("GET", model_path(name, "latest", "model.onnx"), None, params, headers)


def file_of(response: httpx.Response) -> tuple[bytes, str] | None:
    """The model and its SHA-256; None if it is the known one.

    Raises ValueError if the bytes do not match the SHA-256.
    """
    if response.status_code == 304:
        return None
    sha256 = hashlib.sha256(response.content).hexdigest()
    if response.headers["ETag"] != f'"{sha256}"':
        raise ValueError(f"the model's SHA-256 is {sha256}, its ETag {response.headers['ETag']}")
    return response.content, sha256


def digest_of(file: Path) -> str | None:
    """SHA-256 of a file; None if there is none."""
    return hashlib.sha256(file.read_bytes()).hexdigest() if file.exists() else None


def put(file: Path, content: bytes) -> None:
    """Write a file atomically."""
    partial = file.with_name(f".{file.name}.{os.getpid()}.partial")
    partial.write_bytes(content)
    partial.replace(file)
