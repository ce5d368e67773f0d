"""Orders: the first line that a child hears, and all that it is there for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from service.training.messages.parts import Artifacts, Hyperparameters, Limits, Measurement, Start
from storage.records import Signature, VariantName


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
