"""Types that several kinds of messages share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

FEATURE_DTYPE = "hone.feature_dtype"
"""In the metadata of a prefix model: the type in which its float32 outputs are kept."""


@dataclass(frozen=True, slots=True)
class ResourceLimits:
    """What the child may take, beside memory, which its parent limits. nice: 0 to 19."""

    threads: int = 1
    nice: int = 10


@dataclass(frozen=True, slots=True)
class Artifacts:
    """Paths of what the offline phase makes.

    On-Device Training has an optimizer_model. The engine of sessions has a manifest and an
    inference_model, service/training/engines/manifest.py tells of what; training_model is its step.
    prefix_model: the frozen part, an inference model whose outputs are the inputs of the others;
    None where those take the samples themselves. remainder_model: a fragment with the model's other
    outputs, which exports get back; None where there are none.
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


@dataclass(frozen=True, slots=True)
class Working:
    """A sign of life while nothing else is to tell. done: samples."""

    done: int
    kind: Literal["working"] = "working"


@dataclass(frozen=True, slots=True)
class Stopped:
    """The child obeyed a command, or its parent is gone."""

    reason: Literal["paused", "cancelled", "orphaned"]
    kind: Literal["stopped"] = "stopped"


@dataclass(frozen=True, slots=True)
class Failed:
    """The task cannot be carried out, and trying again would not help."""

    code: str
    detail: str
    kind: Literal["failed"] = "failed"
