"""Messages of training that only some jobs send, and only those load."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Chosen:
    """Hyperparameters that the job has chosen, each with the reason, for people."""

    values: dict[str, Any]
    reasons: dict[str, str]
    kind: Literal["chosen"] = "chosen"


@dataclass(frozen=True, slots=True)
class Quarantined:
    """Samples that cannot be read, and are left out. reasons: id as text → reason, for people."""

    reasons: dict[str, str]
    kind: Literal["quarantined"] = "quarantined"


@dataclass(frozen=True, slots=True)
class Decoded:
    """Files were decoded. kept: how many of all `samples` are cached now."""

    samples: int
    decoded: int
    kept: int
    seconds: float
    kind: Literal["decoded"] = "decoded"


@dataclass(frozen=True, slots=True)
class Updated:
    """A round's update is at path as safetensors; residual: what its compression left out.

    samples: number of distinct ones behind it. norm: of the difference as trained; sent_norm: of
    what leaves. raw_bytes: of the parameters as float32. validation: empty if the deadline left no
    time for it.
    """

    path: str
    residual: str | None
    samples: int
    step: int
    norm: float
    sent_norm: float
    raw_bytes: int
    train_loss: float | None
    validation: dict[str, Any]
    baseline: dict[str, Any]
    reason: Literal["finished", "early_stopped", "out_of_time"]
    kind: Literal["updated"] = "updated"


@dataclass(frozen=True, slots=True)
class Validated:
    """Metrics of the parameters on the validation samples, see docs on metrics."""

    validation: dict[str, Any]
    kind: Literal["validated"] = "validated"
