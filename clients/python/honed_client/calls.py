"""Requests and what comes back: no connection, no model."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict
from urllib.parse import quote

import httpx

from honed_client import values

JSON = {"Content-Type": "application/json"}
ENDED = ("succeeded", "failed", "cancelled")


class Prediction(TypedDict, total=False):
    """The prediction for one instance; docs/prediction.md. id: of the sample, if it was kept."""

    label: Any
    probability: float | None
    probabilities: list[Any]
    embedding: list[Any]
    spans: list[dict[str, Any]]
    boxes: list[dict[str, Any]]
    values: list[Any]
    score: float
    threshold: float | None
    anomaly: bool | None
    top: dict[str, list[Any]]
    outputs: dict[str, Any]
    version: int
    id: int


class Suggestion(TypedDict):
    """A word that may come next. replaces: characters at the text's end that it completes."""

    text: str
    probability: float
    replaces: int


class Completion(TypedDict):
    """Generated text. tokens: how many. finish_reason: `stop` or `length`, None for a part."""

    text: str
    tokens: int
    finish_reason: str | None
    model: str
    version: int


class Sample(TypedDict, total=False):
    """A stored sample, without its content."""

    id: int
    key: str | None
    split: str
    label: Any
    pinned: bool
    weight: float


class Added(TypedDict):
    """What became of an upload. ids: the first and the last new one, None if all were there."""

    accepted: int
    duplicates: int
    conflicts: int
    ids: list[int] | None
    warnings: list[str]


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


class Trigger(TypedDict, total=False):
    """What queues jobs of a model; docs/triggers.md."""

    id: int
    name: str
    enabled: bool
    next_at: str | None
    job_id: int | None
    outcome: str


@dataclass(frozen=True)
class Call:
    """A request. At most one of json, content (bytes) and files (a form's parts) is its body."""

    method: str
    path: str
    json: Any = None
    params: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    content: bytes | None = None
    files: Mapping[str, Any] | Sequence[tuple[str, Any]] | None = None

    def options(self) -> dict[str, Any]:
        """The arguments for httpx; parameters of None are left out."""
        bodies = {"content": self.content, "files": self.files}
        body = {name: value for name, value in bodies.items() if value is not None}
        headers = dict(self.headers)
        if self.json is not None:
            body, headers = {"content": values.as_json(self.json)}, {**JSON, **headers}
        params = {name: value for name, value in self.params.items() if value is not None}
        return {"params": params, "headers": headers, **body}


def model_path(name: str, *parts: object) -> str:
    """`/v1/models/digits/samples/3`."""
    return "/".join(["/v1/models", *(quote(str(part), safe="") for part in (name, *parts))])


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
