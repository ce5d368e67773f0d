"""Messages of the comparison of two versions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from service.training.protocol.messages.comparison import Measurement
from service.training.protocol.messages.shared import ResourceLimits


@dataclass(frozen=True, slots=True)
class Compare:
    """Measure two versions on the labelled validation samples as they are now, sample by sample.

    candidate, baseline: their inference models. candidate_classes, baseline_classes: ids of those
    that each tells apart, as in Evaluate. most: samples that are told of each side.
    """

    candidate: str
    baseline: str
    measurement: Measurement
    most: int
    limits: ResourceLimits = field(default_factory=ResourceLimits)
    candidate_classes: tuple[int, ...] | None = None
    baseline_classes: tuple[int, ...] | None = None
    kind: Literal["compare"] = "compare"


@dataclass(frozen=True, slots=True)
class ChangedSample:
    """A sample of which the versions say something else.

    label, before, after: a class index, or the first numbers of a row; None where neither is told.
    before_error, after_error: see Compared.
    """

    id: int
    label: Any
    before: Any
    after: Any
    before_error: float | None
    after_error: float | None


@dataclass(frozen=True, slots=True)
class Compared:
    """Both versions on the same samples. before, after: their metrics, empty without samples.

    by: what of a sample was compared. `class`: it is right or wrong, and its error is the loss.
    `share`: the share of it that is wrong. `absolute`: its mean absolute error. `loss`: its loss.
    worse, better: how many changed sides by `class`, else whose error rose and fell; those of whom
    it changed most, first. left_out: further samples, of classes that one version does not know.
    """

    samples: int
    left_out: int
    by: Literal["class", "share", "absolute", "loss"]
    before: dict[str, Any]
    after: dict[str, Any]
    worse: int
    better: int
    worse_samples: tuple[ChangedSample, ...]
    better_samples: tuple[ChangedSample, ...]
    kind: Literal["compared"] = "compared"
