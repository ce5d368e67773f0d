"""Types that several kinds of messages share, and commands to a working child."""

from __future__ import annotations

from typing import Any, Literal

from service.training.protocol.serialization import Line, Serialized
from storage.records.signatures import Signature

FEATURE_DTYPE = "hone.feature_dtype"
"""Metadata key of a prefix model: the type in which its float32 outputs are cached."""


class ResourceLimits(Serialized, frozen=True):
    """Limits for the child, except memory, which its parent limits. nice: 0 to 19."""

    threads: int = 1
    nice: int = 10


class OwnLoss(Serialized, frozen=True):
    """Paths of the artifacts that compute the model's own loss."""

    manifest: str
    eval_model: str
    checkpoint: str


class Measurement(Serialized, frozen=True):
    """How models are measured: samples and metric. metric: of the task. metric_class: the place of
    the class that it is of.

    reference, base_set: whether to compare on these sets as well. preprocess, cache: as in Train.
    tokenizer: its path, if the model has one. own_loss: if loss is `output`. ignore_index: the
    class whose labels do not count. simple: whether the candidate is compared with simple
    predictions, too. features: of the model.
    """

    signature: Signature
    loss: str
    output: str
    database: str
    packs: str
    model_id: int
    metric: str
    metric_class: int | None = None
    reference: bool = False
    base_set: bool = False
    preprocess: tuple[dict[str, Any], ...] = ()
    cache: str | None = None
    own_loss: OwnLoss | None = None
    ignore_index: int | None = None
    simple: bool = False
    tokenizer: str | None = None
    features: tuple[str, ...] | None = None


class Artifacts(Serialized, frozen=True):
    """Paths of the results of the offline phase.

    On-Device Training has an optimizer_model. The session engine has a manifest and an
    inference_model, see service/training/engines/manifest.py; training_model is its step.
    prefix_model: the frozen part, an inference model whose outputs are the inputs of the others;
    None if those take the samples themselves. remainder_model: a fragment with the model's other
    outputs, which exports restore; None if there are none.
    """

    training_model: str
    eval_model: str
    checkpoint: str
    optimizer_model: str | None = None
    manifest: str | None = None
    inference_model: str | None = None
    prefix_model: str | None = None
    remainder_model: str | None = None
    class_step_model: str | None = None
    optimized_step_model: str | None = None
    optimized_class_step_model: str | None = None
    weights_model: str | None = None
    gradients_model: str | None = None
    tokenizer: str | None = None


class Working(Line, frozen=True):
    """A heartbeat while there is nothing else to report. done: samples."""

    done: int


class Stopped(Line, frozen=True):
    """The child obeyed a command, or its parent is gone."""

    reason: Literal["paused", "cancelled", "orphaned"]


class Failed(Line, frozen=True):
    """The task cannot be carried out, and a retry would not help."""

    code: str
    detail: str


class Pause(Line, frozen=True):
    """A command, which is obeyed between two steps: finish the step, save a checkpoint, end."""


class Cancel(Line, frozen=True):
    """Finish the step, end without saving."""


class Hold(Line, frozen=True):
    """Finish the step, save a checkpoint, then wait in memory for the next command."""


class Continue(Line, frozen=True):
    """Continue after a `Hold`."""
