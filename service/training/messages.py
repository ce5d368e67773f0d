"""What parent and training child say to each other: one JSON object a line.

The parent's first line on the child's stdin is an order (`Prepare`, `Train`, `Evaluate` or
`Convert`); later lines are commands (`Pause`, `Cancel`, `Hold`, `Continue`); end of file means that
the parent is gone. The child answers on stdout; the last message of an order is `Prepared`,
`Refused`, `Done`, `Evaluated`, `Converted`, `Stopped` or `Failed`.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, get_args

from service.training.wire import build
from storage.errors import Problem
from storage.records import Signature, VariantName

FEATURE_DTYPE = "hone.feature_dtype"
"""In the metadata of a prefix model: the type in which its float32 outputs are kept."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What the child may take. nice: 0 to 19. memory_bytes: private memory, None for no limit."""

    threads: int = 1
    nice: int = 10
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Artifacts:
    """Paths of what the offline phase makes.

    prefix_model: the frozen part, an inference model whose outputs are the inputs of the others;
    None where those take the samples themselves.
    """

    training_model: str
    eval_model: str
    optimizer_model: str
    checkpoint: str
    prefix_model: str | None = None


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
    parent_version: the version whose parameters the job began from, None if they are of none.
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
    parent_version: int | None = None


@dataclass(frozen=True, slots=True)
class Start:
    """Where a job begins.

    `base`: the artifacts' own checkpoint. `parameters`: the parameters of `checkpoint`, a fresh
    optimizer. `resume`: all of `checkpoint`, and the loop's `state`; best_checkpoint: the best so
    far, for early stopping. parent_version: where the parameters are those of a version. from_job:
    where they come from another job.
    """

    how: Literal["base", "parameters", "resume"] = "base"
    checkpoint: str | None = None
    state: LoopState | None = None
    best_checkpoint: str | None = None
    parent_version: int | None = None
    from_job: int | None = None


@dataclass(frozen=True, slots=True)
class Prepare:
    """Check an uploaded model and make it ready to train.

    source: a forward ONNX file, or a zip of artifacts. trainable: glob patterns over initializer
    names, `head` or `last:N`, None for every float parameter. divide: cut off what is frozen below
    them, if that pays. feature_dtype: in which float32 features are kept. Results are written below
    work_dir.
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
    divide: bool = False
    feature_dtype: Literal["float32", "float16"] = "float32"
    limits: Limits = field(default_factory=Limits)
    kind: Literal["prepare"] = "prepare"


@dataclass(frozen=True, slots=True)
class Train:
    """Train one model on its samples up to the watermark, then export it.

    provenance: what the parent knows of where the model comes from. cache: the model's folder of
    what is made from its samples; feature_cache_bytes: the most that features may take there,
    tensor_cache_bytes: decoded images. preprocess: of the inputs, as the model's row has it.
    """

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
    provenance: dict[str, Any] = field(default_factory=dict)
    cache: str | None = None
    feature_cache_bytes: int = 0
    preprocess: tuple[dict[str, Any], ...] = ()
    tensor_cache_bytes: int = 0
    kind: Literal["train"] = "train"


@dataclass(frozen=True, slots=True)
class Measurement:
    """What models are measured on and by. metric: `accuracy`, `loss` or `mae`.

    reference: whether to compare on the reference set as well. preprocess, cache: as
    in Train.
    """

    signature: Signature
    loss: str
    output: str
    database: str
    packs: str
    model_id: int
    metric: str
    reference: bool = False
    preprocess: tuple[dict[str, Any], ...] = ()
    cache: str | None = None


@dataclass(frozen=True, slots=True)
class Evaluate:
    """Compare two inference models on the labelled validation samples as they are now."""

    candidate: str
    baseline: str
    measurement: Measurement
    limits: Limits = field(default_factory=Limits)
    kind: Literal["evaluate"] = "evaluate"


@dataclass(frozen=True, slots=True)
class Convert:
    """Make another form of an inference model, and compare it with the one that it is made of."""

    source: str
    variant: VariantName
    work_dir: str
    measurement: Measurement
    limits: Limits = field(default_factory=Limits)
    kind: Literal["convert"] = "convert"


@dataclass(frozen=True, slots=True)
class Score:
    """Tell how much an inference model doubts each of the newest unlabelled samples."""

    model: str
    measurement: Measurement
    newest: int
    limits: Limits = field(default_factory=Limits)
    kind: Literal["score"] = "score"


@dataclass(frozen=True, slots=True)
class Pause:
    """Finish the step, save a checkpoint, end."""

    kind: Literal["pause"] = "pause"


@dataclass(frozen=True, slots=True)
class Cancel:
    """Finish the step, end without saving."""

    kind: Literal["cancel"] = "cancel"


@dataclass(frozen=True, slots=True)
class Hold:
    """Finish the step, then wait in memory for the next command."""

    kind: Literal["hold"] = "hold"


@dataclass(frozen=True, slots=True)
class Continue:
    """Go on after a `Hold`."""

    kind: Literal["continue"] = "continue"


@dataclass(frozen=True, slots=True)
class Cut:
    """Where the frozen part of a model ends. Bytes and milliseconds are of one sample.

    tensors: what crosses the cut. nodes, parameters: how many lie below it. pays: whether a row of
    features is read sooner than it is made.
    """

    tensors: tuple[str, ...]
    nodes: int
    parameters: int
    feature_bytes: int
    input_bytes: int
    milliseconds: float
    pays: bool


@dataclass(frozen=True, slots=True)
class Parameter:
    """A float parameter of the model. below: whether the cut leaves it in the frozen part."""

    name: str
    shape: tuple[int, ...]
    trains: bool
    below: bool


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
class Interval:
    """A paired bootstrap of the metric's difference, candidate less baseline.

    low, high: 95 % percentile interval. p_value: two-sided.
    """

    difference: float
    low: float
    high: float
    p_value: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two models on the same samples.

    candidate, baseline: their metrics, empty without samples; baseline is None where that model
    cannot be run, and fault says why. class_counts: samples by class index, empty without classes.
    discordant: how often only the baseline was right, and only the candidate, where each sample is
    right or wrong. interval: where it is not.
    """

    samples: int
    class_counts: tuple[int, ...]
    candidate: dict[str, Any]
    baseline: dict[str, Any] | None
    fault: str | None = None
    discordant: tuple[int, int] | None = None
    interval: Interval | None = None


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


Order = Prepare | Train | Evaluate | Convert | Score
Command = Pause | Cancel | Hold | Continue
Message = (
    Prepared
    | Refused
    | Started
    | Quarantined
    | Seen
    | Decoded
    | Progress
    | Measured
    | Saved
    | Working
    | Done
    | Evaluated
    | Converted
    | Scored
    | Stopped
    | Failed
)
Line = Order | Command | Message


KINDS = {
    each.default: kind for kind in get_args(Line) for each in fields(kind) if each.name == "kind"
}
"""What a line says of its kind → its class."""


def encode(line: Line) -> bytes:
    """One JSON line, ended by a newline. Raises ValueError if a number is not finite."""
    return json.dumps(asdict(line), allow_nan=False, separators=(",", ":")).encode() + b"\n"


def decode(line: bytes) -> Line:
    """Raises ValueError if the line is not a message."""
    value = json.loads(line)
    kind = KINDS.get(str(value.get("kind"))) if isinstance(value, dict) else None
    if kind is None:
        raise ValueError(f"this is no message: {line[:200]!r}")
    found: Line = build(kind, value)
    return found
