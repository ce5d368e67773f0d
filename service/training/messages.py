"""What parent and training child say to each other: one JSON object a line.

The parent's first line on the child's stdin is an order (`Prepare` or `Train`); later lines are
commands (`Pause`, `Cancel`); end of file means that the parent is gone. The child answers on
stdout; the last message of an order is `Prepared`, `Refused`, `Done`, `Stopped` or `Failed`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter

from storage.errors import Problem
from storage.records import Signature


@dataclass(frozen=True, slots=True)
class Limits:
    """What the child may take. nice: 0 to 19. memory_bytes: private memory, None for no limit."""

    threads: int = 1
    nice: int = 10
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Artifacts:
    """Paths of what the offline phase makes."""

    training_model: str
    eval_model: str
    optimizer_model: str
    checkpoint: str


@dataclass(frozen=True, slots=True)
class Hyperparameters:
    """How a job trains. One of epochs, max_steps, max_seconds at least ends it, the first met.

    A step is one move of the optimizer: accumulation_steps batches of batch_size samples.
    learning_rate is the peak; warmup_steps rise to it linearly from 0, then `linear` and `cosine`
    fall to 0 at the last step. early_stopping_patience: epochs without a lower validation loss.
    """

    epochs: int | None = None
    max_steps: int | None = None
    max_seconds: float | None = None
    batch_size: int = 32
    learning_rate: float = 1e-3
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    warmup_steps: int = 0
    accumulation_steps: int = 1
    early_stopping_patience: int | None = None
    seed: int = 0


@dataclass(frozen=True, slots=True)
class LoopState:
    """The loop's own state at a checkpoint; with the engine's state a job goes on bit for bit.

    step: optimizer steps done. seconds: training time spent. loss_sum, loss_count: of the
    running epoch. best_*, stale_epochs: early stopping. baseline: validation before the first step.
    """

    step: int = 0
    epoch: int = 0
    seconds: float = 0.0
    loss_sum: float = 0.0
    loss_count: int = 0
    best_loss: float | None = None
    stale_epochs: int = 0
    threads: int = 1
    baseline: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Start:
    """Where a job begins.

    `base`: the artifacts' own checkpoint. `parameters`: the parameters of `checkpoint`, a fresh
    optimizer. `resume`: all of `checkpoint`, and the loop's `state`; best_checkpoint: the best so
    far, for early stopping.
    """

    how: Literal["base", "parameters", "resume"] = "base"
    checkpoint: str | None = None
    state: LoopState | None = None
    best_checkpoint: str | None = None


@dataclass(frozen=True, slots=True)
class Prepare:
    """Check an uploaded model and make it ready to train.

    source: a forward ONNX file, or a zip of artifacts. trainable: glob patterns over initializer
    names, None for every float parameter. Results are written below work_dir.
    """

    source: str
    form: Literal["forward", "artifacts"]
    work_dir: str
    loss: str
    optimizer: str = "adamw"
    output: str | None = None
    trainable: tuple[str, ...] | None = None
    classes: tuple[str, ...] | None = None
    weight_decay: float = 0.0
    max_grad_norm: float | None = None
    limits: Limits = field(default_factory=Limits)
    kind: Literal["prepare"] = "prepare"


@dataclass(frozen=True, slots=True)
class Train:
    """Train one model on its samples up to the watermark, then export it."""

    artifacts: Artifacts
    signature: Signature
    loss: str
    output: str
    database: str
    packs: str
    model_id: int
    watermark: int
    hyperparameters: Hyperparameters
    start: Start
    work_dir: str
    checkpoint_interval_s: float = 60.0
    limits: Limits = field(default_factory=Limits)
    kind: Literal["train"] = "train"


@dataclass(frozen=True, slots=True)
class Pause:
    """Finish the step, save a checkpoint, end."""

    kind: Literal["pause"] = "pause"


@dataclass(frozen=True, slots=True)
class Cancel:
    """Finish the step, end without saving."""

    kind: Literal["cancel"] = "cancel"


@dataclass(frozen=True, slots=True)
class Prepared:
    """The model is ready to train. base_model: the inference model that is version 1.

    output: the tensor that is exported and measured. notes: what was mended in the graph.
    """

    artifacts: Artifacts
    base_model: str
    signature: Signature
    output: str
    trainable: tuple[str, ...]
    trainable_parameters: int
    frozen_parameters: int
    notes: tuple[str, ...] = ()
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
    kind: Literal["done"] = "done"


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


Order = Prepare | Train
Command = Pause | Cancel
Message = Prepared | Refused | Started | Progress | Measured | Saved | Done | Stopped | Failed
Line = Order | Command | Message


@cache
def _adapter() -> TypeAdapter[Line]:
    return TypeAdapter(Annotated[Line, Field(discriminator="kind")])


def encode(line: Line) -> bytes:
    """One JSON line, ended by a newline."""
    return _adapter().dump_json(line) + b"\n"


def decode(line: bytes) -> Line:
    """Raises pydantic.ValidationError if the line is not a message."""
    return _adapter().validate_json(line)
