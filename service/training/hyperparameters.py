"""Hyperparameters of a job, declared once for the child, the API and the CLI."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_type_hints

from msgspec.structs import fields

from service.training.heads.kinds import ALL_HEADS, Head
from service.training.optimizer.options import (
    About,
    ClassWeights,
    Distillation,
    IgnoreIndex,
    LabelSmoothing,
    LossOptions,
    OptimizerOptions,
    abouts,
)


class Hyperparameters(OptimizerOptions, frozen=True):
    """How a job trains, with which optimizer and loss.

    It ends when the first of epochs, max_steps, max_seconds is reached.

    A field added here becomes a field of `POST …/jobs` and an option of `honed train`.
    A step is one update by the optimizer: accumulation_steps batches of batch_size samples.
    The learning rate rises linearly from 0 over warmup_steps; then `linear` and `cosine` lower it
    to 0 at the last step.
    """

    label_smoothing: LabelSmoothing = 0.0
    class_weights: ClassWeights = None
    ignore_index: IgnoreIndex = None
    distillation: Distillation = 0.0
    auto: Annotated[
        bool | None,
        About(
            "Let the job choose what is not given of epochs, batch_size, learning_rate, schedule, "
            "early_stopping_patience, class_weights and label_smoothing. Default: true if neither "
            "the request nor the model says how long or how fast to train.",
        ),
    ] = None
    epochs: Annotated[
        int | None,
        About(
            "Passes over the samples. Default: 5 unless the job chooses, or steps or seconds "
            "are given.",
            ge=1,
            le=10**6,
            sets="length",
            chosen=True,
        ),
    ] = None
    max_steps: Annotated[
        int | None,
        About("End after this many optimizer steps.", ge=1, le=10**9, sets="length"),
    ] = None
    max_seconds: Annotated[
        float | None,
        About("End after this many seconds of training.", gt=0, le=31_536_000, sets="length"),
    ] = None
    batch_size: Annotated[
        int, About("Samples in a batch.", ge=1, le=65_536, sets="pace", chosen=True)
    ] = 32
    learning_rate: Annotated[
        float, About("Peak learning rate.", gt=0, le=100, sets="pace", chosen=True)
    ] = 1e-3
    schedule: Annotated[
        Literal["constant", "linear", "cosine"],
        About("How the learning rate falls from its peak.", sets="course", chosen=True),
    ] = "constant"
    warmup_steps: Annotated[
        int,
        About("Steps in which the learning rate rises to its peak.", ge=0, le=10**9, sets="course"),
    ] = 0
    accumulation_steps: Annotated[
        int, About("Batches whose gradients add up to one step.", ge=1, le=65_536, sets="pace")
    ] = 1
    early_stopping_patience: Annotated[
        int | None,
        About(
            "End after this many epochs without a lower validation loss.",
            ge=1,
            le=10**6,
            sets="course",
            chosen=True,
        ),
    ] = None
    replay: Annotated[
        float | None,
        About(
            "Share of an epoch that is drawn from the base set. Default: chosen if there is one.",
            ge=0,
            le=0.95,
            heads=ALL_HEADS,
            chosen=True,
        ),
    ] = None
    head: Annotated[
        Literal["auto"] | Head | None,
        About(
            "Head of a classifier: prototype and knn (of k neighbours) are computed, linear trains "
            "the last layer alone, full all that trains; auto chooses by cross-validation. "
            "Default: full.",
            heads=ALL_HEADS,
        ),
    ] = None
    sampling: Annotated[
        Literal["shuffled", "balanced"],
        About(
            "What an epoch holds: every sample once, or about as many, of which each class has as "
            "many as the others.",
            one_class=("balanced", "balanced sampling"),
        ),
    ] = "shuffled"
    calibrate: Annotated[
        bool,
        About(
            "Scale the exported logits so that confidence fits the validation samples.",
            heads=ALL_HEADS,
            one_class=(True, "calibration"),
        ),
    ] = False
    standardize_labels: Annotated[
        bool,
        About(
            "Train a model of numbers on labels brought to mean 0 and deviation 1, which versions "
            "undo, unless it already explains a tenth of their variance."
        ),
    ] = True
    false_alarm_rate: Annotated[
        float,
        About(
            "Share of normal samples that a version takes for anomalies: sets its threshold.",
            gt=0,
            lt=1,
            heads=ALL_HEADS,
        ),
    ] = 0.01
    seed: Annotated[
        int,
        About(
            "Seed of shuffling and dropout. Default: a new one.", ge=0, lt=2**31, heads=ALL_HEADS
        ),
    ] = 0

    @property
    def computes_head(self) -> bool:
        """Whether the job computes its head, and takes no steps."""
        return isinstance(self.head, Head) and self.head.is_computed

    @property
    def optimizer_options(self) -> OptimizerOptions:
        """The part that the optimizer needs."""
        return OptimizerOptions(
            **{name: getattr(self, name) for name in OptimizerOptions.__struct_fields__}
        )

    @property
    def loss_options(self) -> LossOptions:
        """The part that the loss needs."""
        return LossOptions(**{name: getattr(self, name) for name in LossOptions.__struct_fields__})


class Declared(NamedTuple):
    """A declared hyperparameter. kind: its type, possibly with None.

    default: used if neither request nor model sets it; None if its text describes the default.
    """

    name: str
    kind: Any
    about: About
    default: Any


def declared() -> Iterator[Declared]:
    """All hyperparameters of a job: how long it trains, then what optimizer and loss take."""
    hints = get_type_hints(Hyperparameters, include_extras=True)
    by_name = {field.name: field for field in fields(Hyperparameters)}
    last = [*OptimizerOptions.__struct_fields__, *LossOptions.__struct_fields__]
    for name in (*(other for other in by_name if other not in last), *last):
        kind, about = get_args(hints[name])
        default = None if "Default:" in about.text else by_name[name].default
        yield Declared(name, kind, about, default)


ABOUT = abouts(Hyperparameters)
"""What each hyperparameter declares."""
LENGTHS = tuple(name for name, about in ABOUT.items() if about.sets == "length")
CHOSEN = tuple(name for name, about in ABOUT.items() if about.chosen)
FIXED = frozenset(
    {*OptimizerOptions.__struct_fields__, *LossOptions.__struct_fields__, "standardize_labels"}
)
"""What artifacts of Microsoft's tools fix."""
