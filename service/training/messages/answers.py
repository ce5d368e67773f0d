"""Answers: what a child says. The last one of an order ends it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from service.training.messages.parts import Artifacts, Comparison, Cut, LoopState, Parameter
from storage.errors import Problem
from storage.records import Signature


@dataclass(frozen=True, slots=True)
class Prepared:
    """The model is ready to train. base_model: the inference model that is version 1.

    output: the tensor that is exported and measured. notes: what was mended in the graph.
    parameters: all of a forward model's, in graph order. cut: where its frozen part ends, None
    if it has none.
    """

    artifacts: Artifacts
    base_model: str
    signature: Signature
    output: str
    trainable: tuple[str, ...]
    trainable_parameters: int
    frozen_parameters: int
    notes: tuple[str, ...] = ()
    parameters: tuple[Parameter, ...] = ()
    cut: Cut | None = None
    kind: Literal["prepared"] = "prepared"


@dataclass(frozen=True, slots=True)
class Refused:
    """The upload cannot be trained; every cause at once."""

    detail: str
    problems: tuple[Problem, ...]
    kind: Literal["refused"] = "refused"


@dataclass(frozen=True, slots=True)
class Started:
    """The engine is loaded and the samples are found. total_steps: None when time ends the job."""

    engine: str
    threads: int
    train_samples: int
    validation_samples: int
    total_steps: int | None
    epochs: int | None
    kind: Literal["started"] = "started"


@dataclass(frozen=True, slots=True)
class Quarantined:
    """Samples that cannot be read, and are left out. reasons: by id as text, for people."""

    reasons: dict[str, str]
    kind: Literal["quarantined"] = "quarantined"


@dataclass(frozen=True, slots=True)
class Seen:
    """What the job is about to train on. ids: a set of sample ids (storage/id_set.py), base64.

    started_from: the job whose parameters it begins with.
    """

    ids: str
    started_from: int | None = None
    kind: Literal["seen"] = "seen"


@dataclass(frozen=True, slots=True)
class Decoded:
    """Images were made into tensors. kept: how many of all `samples` the cache holds now."""

    samples: int
    decoded: int
    kept: int
    seconds: float
    kind: Literal["decoded"] = "decoded"


@dataclass(frozen=True, slots=True)
class Progress:
    """A sign of life, at most a few a second. train_loss: mean since the last one."""

    step: int
    total_steps: int | None
    epoch: int
    epochs: int | None
    samples_per_second: float
    eta_seconds: float | None
    train_loss: float | None
    kind: Literal["progress"] = "progress"


@dataclass(frozen=True, slots=True)
class Measured:
    """A point of the loss curve, or the validation at an epoch's end."""

    step: int
    epoch: int
    values: dict[str, float]
    kind: Literal["measured"] = "measured"


@dataclass(frozen=True, slots=True)
class Saved:
    """A checkpoint lies at path, whole and flushed."""

    path: str
    role: Literal["periodic", "best", "final"]
    state: LoopState
    kind: Literal["saved"] = "saved"


@dataclass(frozen=True, slots=True)
class Done:
    """The inference model lies at path, checked. validation, baseline: see docs on metrics."""

    path: str
    step: int
    epoch: int
    train_loss: float | None
    validation: dict[str, Any]
    baseline: dict[str, Any]
    reason: Literal["finished", "early_stopped", "out_of_time"]
    provenance: dict[str, Any] = field(default_factory=dict)
    kind: Literal["done"] = "done"


@dataclass(frozen=True, slots=True)
class Working:
    """A sign of life while models are compared. done: samples."""

    done: int
    kind: Literal["working"] = "working"


@dataclass(frozen=True, slots=True)
class Evaluated:
    """The models are compared. reference: on the reference set, None where none was asked for."""

    validation: Comparison
    reference: Comparison | None = None
    kind: Literal["evaluated"] = "evaluated"


@dataclass(frozen=True, slots=True)
class Converted:
    """The variant lies at path. method: how it was made. candidate is the variant."""

    path: str
    method: str
    validation: Comparison
    reference: Comparison | None = None
    kind: Literal["converted"] = "converted"


@dataclass(frozen=True, slots=True)
class Scored:
    """Entropies, in nats, of what the model makes of the samples with these ids."""

    ids: tuple[int, ...]
    entropies: tuple[float, ...]
    kind: Literal["scored"] = "scored"


@dataclass(frozen=True, slots=True)
class Stopped:
    """The child obeyed a command, or its parent is gone."""

    reason: Literal["paused", "cancelled", "orphaned"]
    kind: Literal["stopped"] = "stopped"


@dataclass(frozen=True, slots=True)
class Failed:
    """The order cannot be carried out, and trying again would not help."""

    code: str
    detail: str
    kind: Literal["failed"] = "failed"
