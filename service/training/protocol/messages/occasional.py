"""Messages of training that only some jobs send, and only those load."""

from __future__ import annotations

from typing import Any, Literal

from service.training.protocol.serialization import Serialized


class Chosen(Serialized, frozen=True):
    """Hyperparameters that the job has chosen, each with the reason, for people."""

    values: dict[str, Any]
    reasons: dict[str, str]
    kind: Literal["chosen"] = "chosen"


class Quarantined(Serialized, frozen=True):
    """Samples that cannot be read, and are left out. reasons: id as text → reason, for people."""

    reasons: dict[str, str]
    kind: Literal["quarantined"] = "quarantined"


class Decoded(Serialized, frozen=True):
    """Files were decoded. kept: how many of all `samples` are cached now."""

    samples: int
    decoded: int
    kept: int
    seconds: float
    kind: Literal["decoded"] = "decoded"


class Updated(Serialized, frozen=True):
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


class Validated(Serialized, frozen=True):
    """Metrics of the parameters on the validation samples, see docs on metrics."""

    validation: dict[str, Any]
    kind: Literal["validated"] = "validated"
