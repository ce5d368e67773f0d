"""Messages of training."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from service.training.hyperparameters import Hyperparameters
from service.training.protocol.messages.shared import Artifacts, ResourceLimits
from storage.records.signatures import Signature


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
    where they come from another job. given: parameters that were sent, which take the place of the
    checkpoint's; its running statistics stay. teacher: where a resumed job began, None for `base`.
    """

    how: Literal["base", "parameters", "resume"] = "base"
    checkpoint: str | None = None
    state: LoopState | None = None
    best_checkpoint: str | None = None
    parent_version: int | None = None
    from_job: int | None = None
    given: str | None = None
    teacher: str | None = None


Compression = Literal["none", "int8", "top_k"]


@dataclass(frozen=True, slots=True)
class UpdateTerms:
    """How the difference to the parameters in `given` is made ready to leave.

    min_samples: the fewest that it may come from. clip_norm: the largest norm of all of it, None
    for any. noise_multiplier: standard deviation of the noise, as a multiple of clip_norm. share:
    of the numbers, by top_k. residual: what the last compression left out. deadline: seconds since
    1970, when training ends.
    """

    given: str
    min_samples: int = 1
    clip_norm: float | None = None
    noise_multiplier: float = 0.0
    compression: Compression = "none"
    share: float = 0.01
    residual: str | None = None
    deadline: float | None = None


@dataclass(frozen=True, slots=True)
class Train:
    """Train one model on its samples up to the watermark, then export it.

    update: make this of it instead. only_measures: validate the parameters that it starts from, and
    nothing else.

    provenance: what the parent knows of where the model comes from. cache: the model's folder of
    what is made from its samples; feature_cache_bytes: the most that features may take there,
    tensor_cache_bytes: decoded files. preprocess: of the inputs, as the model's row has it.
    warnings: for people; the child adds its own. providers: of execution, in order of preference;
    the CPU's if none. open: the hyperparameters that the child is to choose.
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
    limits: ResourceLimits = field(default_factory=ResourceLimits)
    provenance: dict[str, Any] = field(default_factory=dict)
    cache: str | None = None
    feature_cache_bytes: int = 0
    preprocess: tuple[dict[str, Any], ...] = ()
    tensor_cache_bytes: int = 0
    warnings: tuple[str, ...] = ()
    providers: tuple[str, ...] = ()
    open: tuple[str, ...] = ()
    update: UpdateTerms | None = None
    only_measures: bool = False
    kind: Literal["train"] = "train"


@dataclass(frozen=True, slots=True)
class Chosen:
    """Hyperparameters that the job has chosen, and for each the reason, for people."""

    values: dict[str, Any]
    reasons: dict[str, str]
    kind: Literal["chosen"] = "chosen"


@dataclass(frozen=True, slots=True)
class Started:
    """The engine is loaded and the samples are found. total_steps: None when time ends the job.

    warnings: what may keep the job from learning, for people.
    """

    engine: str
    threads: int
    train_samples: int
    validation_samples: int
    total_steps: int | None
    epochs: int | None
    warnings: tuple[str, ...] = ()
    kind: Literal["started"] = "started"


@dataclass(frozen=True, slots=True)
class Quarantined:
    """Samples that cannot be read, and are left out. reasons: by id as text, for people."""

    reasons: dict[str, str]
    kind: Literal["quarantined"] = "quarantined"


@dataclass(frozen=True, slots=True)
class Seen:
    """What the job is about to train on. ids: sample ids, by storage.records.id_set, base64.

    started_from: the job whose parameters it begins with.
    """

    ids: str
    started_from: int | None = None
    kind: Literal["seen"] = "seen"


@dataclass(frozen=True, slots=True)
class Decoded:
    """Files were decoded. kept: how many of all `samples` the cache holds now."""

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
    """The inference model lies at path, checked. validation, baseline: see docs on metrics.

    warnings: of what it is made of, for people. recipe: where the steps to it from the artifact
    inference_model lie, None if it is kept whole.
    """

    path: str
    step: int
    epoch: int
    train_loss: float | None
    validation: dict[str, Any]
    baseline: dict[str, Any]
    reason: Literal["finished", "early_stopped", "out_of_time"]
    provenance: dict[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    recipe: str | None = None
    kind: Literal["done"] = "done"


@dataclass(frozen=True, slots=True)
class Updated:
    """A round's update lies at path as safetensors; residual: what its compression left out.

    samples: different ones that it comes from. norm: of the difference as it was trained;
    sent_norm: of what leaves. raw_bytes: of the parameters as float32. validation: empty where the
    deadline left no time for it.
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
    """What the parameters are worth on the validation samples, as in docs on metrics."""

    validation: dict[str, Any]
    kind: Literal["validated"] = "validated"
