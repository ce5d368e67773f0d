"""Types that several kinds of messages share."""

from __future__ import annotations

from typing import Literal

from service.training.protocol.serialization import Line, Serialized

FEATURE_DTYPE = "hone.feature_dtype"
"""Metadata key of a prefix model: the type in which its float32 outputs are cached."""


class ResourceLimits(Serialized, frozen=True):
    """Limits for the child, except memory, which its parent limits. nice: 0 to 19."""

    threads: int = 1
    nice: int = 10


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
