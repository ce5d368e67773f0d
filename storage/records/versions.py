"""The results of jobs: checkpoints, versions, variants."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, NamedTuple

from msgspec import Struct, field

from storage.records.models import FileRecord
from storage.records.signatures import TargetSpec

Role = Literal["periodic", "best", "final"]
VariantName = Literal["adaptable", "adapter", "int8", "ort"]


class VariantKind(NamedTuple):
    """Another form in which a model can be fetched. suffix: of its file's name.

    is_exact: whether it computes the same results, so that no samples are needed to judge it.
    """

    described: str
    media_type: str
    suffix: str
    is_exact: bool


VARIANTS: dict[VariantName, VariantKind] = {
    "adaptable": VariantKind(
        "what trains as inputs", "application/onnx", "-adaptable.onnx", is_exact=True
    ),
    "adapter": VariantKind(
        "what trains, for an adaptable one",
        "application/octet-stream",
        ".onnx_adapter",
        is_exact=True,
    ),
    "int8": VariantKind("quantized", "application/onnx", "-int8.onnx", is_exact=False),
    "ort": VariantKind("ONNX Runtime's format", "application/octet-stream", ".ort", is_exact=True),
}
"""All variants; service/training/export/convert.py makes them."""


class Checkpoint(Struct, frozen=True):
    """Training state of a job after `step`. role: `periodic`, `best` or `final`.

    engine: the one that wrote it. state: the training loop's, so that a job resumes bit for bit.
    """

    id: int
    model_id: int
    job_id: int
    role: Role
    step: int
    epoch: int
    engine: str
    file: FileRecord
    state: dict[str, Any]
    pinned: bool
    note: str
    created_at: datetime


class Variant(Struct, frozen=True):
    """Another form of a version's model. file: None if it was refused; reason says why.

    method: how it was made. metrics: on the same samples as the version's.
    """

    name: str
    file: FileRecord | None
    method: str
    metrics: dict[str, Any]
    verdict: dict[str, Any]
    reason: str
    created_at: datetime


class FileRecipe(Struct, frozen=True):
    """Steps from a stored file to another. base: its SHA-256. file: the adopted steps."""

    base: str
    file: FileRecord


class NewVersion(Struct, frozen=True):
    """A version to be stored; file: adopted; the fields are those of Version.

    promoted: whether `latest` is to move to it. recipe: store `file` as these steps.
    """

    model_id: int
    job_id: int
    checkpoint_id: int | None
    file: FileRecord
    promoted: bool
    reason: str
    metrics: dict[str, Any] = field(default_factory=dict)
    baseline: dict[str, Any] = field(default_factory=dict)
    verdict: dict[str, Any] = field(default_factory=dict)
    provenance: dict[str, Any] = field(default_factory=dict)
    recipe: FileRecipe | None = None


class Version(Struct, frozen=True):
    """An exported inference model, immutable, numbered from 1 within its model.

    promoted, reason, verdict: the gate's decision when it was made. metrics, baseline: its own and
    those of what `latest` named then, on the same samples. provenance: where it comes from. target:
    its model's when it was made, including classes. stored_bytes: without what it shares. base: the
    one that it descends from.
    """

    model_id: int
    model: str
    version: int
    base: int
    file: FileRecord
    stored_bytes: int
    created_at: datetime
    job_id: int | None
    checkpoint_id: int | None
    metrics: dict[str, Any]
    baseline: dict[str, Any]
    aliases: tuple[str, ...]
    promoted: bool
    reason: str
    verdict: dict[str, Any]
    provenance: dict[str, Any]
    target: TargetSpec
    variants: tuple[Variant, ...]
