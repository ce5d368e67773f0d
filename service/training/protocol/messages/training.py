"""Messages of training."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import field

from service.training.engines.provider_setting import Provider
from service.training.hyperparameters import Hyperparameters
from service.training.protocol.messages.shared import Artifacts, Measurement, ResourceLimits
from service.training.protocol.serialization import Line, Serialized
from storage.records.signatures import Signature


class LoopState(Serialized, frozen=True):
    """The loop's own state at a checkpoint; with the engine's state a job resumes bit for bit.

    step: optimizer steps done. seconds: training time spent. loss_sum, loss_count: of the
    current epoch. best_*, stale_epochs: early stopping. baseline: validation before the first step.
    parent_version: the version whose parameters the job started from, None if there is none.
    taught_by: the version in `Train.teacher`, None if there is none.
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
    taught_by: int | None = None


class Start(Serialized, frozen=True):
    """A job's starting point.

    `base`: the artifacts' own checkpoint. `parameters`: the parameters of `checkpoint`, a fresh
    optimizer. `resume`: everything in `checkpoint`, and the loop's `state`; best_checkpoint: the
    best so far, for early stopping. parent_version: if the parameters are those of a version.
    from_job: if they come from another job. given: received parameters, which replace the
    checkpoint's; its running statistics stay. teacher: the original start of a resumed job, None
    for `base`.
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


class UpdateTerms(Serialized, frozen=True):
    """How the difference from the parameters in `given` is made ready to leave.

    min_samples: the fewest that it may come from. clip_norm: the maximum norm of the whole, None
    for any. noise_multiplier: standard deviation of the noise, as a multiple of clip_norm. share:
    of the numbers, for top_k. residual: what the last compression left out. deadline: when training
    ends, in seconds since 1970.
    """

    given: str
    min_samples: int = 1
    clip_norm: float | None = None
    noise_multiplier: float = 0.0
    compression: Compression = "none"
    share: float = 0.01
    residual: str | None = None
    deadline: float | None = None


class Teacher(Serialized, frozen=True):
    """A version of another base, whose predictions distillation takes.

    job: which made it. model: path of its inference model. measurement: how it takes samples.
    classes: ids of those that it knows, None for those of the signature.
    """

    version: int
    job: int | None
    model: str
    measurement: Measurement
    classes: tuple[int, ...] | None = None


class Train(Line, frozen=True):
    """Train one model on its samples up to the watermark, then export it.

    update: make this update instead. only_measures: validate the parameters that it starts from,
    and nothing else.

    provenance: what the parent knows about the model's origin. cache: the model's folder for data
    computed from its samples; feature_cache_bytes: the maximum size of features there,
    tensor_cache_bytes: of decoded files. preprocess: of the inputs, as in the model's row.
    providers: execution providers in order of preference; the CPU's if empty. to_choose: the
    hyperparameters that the child chooses. teacher: for distillation, if it is not the version that
    the job starts from.
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
    providers: tuple[Provider, ...] = ()
    to_choose: tuple[str, ...] = ()
    update: UpdateTerms | None = None
    only_measures: bool = False
    teacher: Teacher | None = None


class Started(Line, frozen=True):
    """Engine and samples are loaded. total_steps: None if time ends the job.

    warnings: what may prevent the job from learning, for people.
    """

    engine: str
    threads: int
    train_samples: int
    validation_samples: int
    total_steps: int | None
    epochs: int | None
    warnings: tuple[str, ...] = ()


class Seen(Line, frozen=True):
    """The samples that the job will train on. ids: encoded by storage.records.id_set, base64.

    started_from: the job whose parameters it starts with, or whose version teaches it.
    """

    ids: str
    started_from: int | None = None


class Progress(Line, frozen=True):
    """A heartbeat, at most a few per second. train_loss: mean since the last one."""

    step: int
    total_steps: int | None
    epoch: int
    epochs: int | None
    samples_per_second: float
    eta_seconds: float | None
    train_loss: float | None


class Measured(Line, frozen=True):
    """A point of the loss curve, or the validation at an epoch's end."""

    step: int
    epoch: int
    values: dict[str, float]


class Saved(Line, frozen=True):
    """A checkpoint is at path, complete and flushed."""

    path: str
    role: Literal["periodic", "best", "final"]
    state: LoopState


class Done(Line, frozen=True):
    """The inference model is at path, checked. validation, baseline: see docs on metrics.

    warnings: about how it was made, for people. recipe: the file with the steps to it from the
    artifact inference_model, None if it is stored whole.
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


class Chosen(Line, frozen=True):
    """Hyperparameters that the job has chosen, each with the reason, for people."""

    values: dict[str, Any]
    reasons: dict[str, str]


class Quarantined(Line, frozen=True):
    """Samples that cannot be read, and are left out. reasons: id as text → reason, for people."""

    reasons: dict[str, str]


class Dropped(Line, frozen=True):
    """A cache was damaged, and its rows are made anew. reason: for people."""

    cache: str
    reason: str


class Decoded(Line, frozen=True):
    """Files were decoded. kept: how many of all `samples` are cached now."""

    samples: int
    decoded: int
    kept: int
    seconds: float


class Updated(Line, frozen=True):
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


class Validated(Line, frozen=True):
    """Metrics of the parameters on the validation samples, see docs on metrics."""

    validation: dict[str, Any]
