"""What orders and answers are made of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from storage.records import Signature

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
    None where those take the samples themselves. remainder_model: a fragment with the model's other
    outputs, which exports get back; None where there are none.
    """

    training_model: str
    eval_model: str
    optimizer_model: str
    checkpoint: str
    prefix_model: str | None = None
    remainder_model: str | None = None


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
