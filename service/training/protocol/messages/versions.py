"""Messages of the comparison of two versions."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import field

from service.training.protocol.messages.shared import Measurement, ResourceLimits
from service.training.protocol.serialization import Line, Serialized


class Compare(Line, frozen=True):
    """Measure two versions on the current labelled validation samples, sample by sample.

    candidate, baseline: their inference models. candidate_classes, baseline_classes: ids of those
    that each knows, and baseline_measurement, as in Evaluate. most: maximum number of samples
    listed for each side.
    """

    candidate: str
    baseline: str
    measurement: Measurement
    most: int
    limits: ResourceLimits = field(default_factory=ResourceLimits)
    candidate_classes: tuple[int, ...] | None = None
    baseline_classes: tuple[int, ...] | None = None
    baseline_measurement: Measurement | None = None


class ChangedSample(Serialized, frozen=True):
    """A sample on which the versions differ.

    label, before, after: a class index, or the first numbers of a row; None if neither is known.
    before_error, after_error: see Compared.
    """

    id: int
    label: Any
    before: Any
    after: Any
    before_error: float | None
    after_error: float | None


class Compared(Line, frozen=True):
    """Both versions on the same samples. before, after: their metrics, empty without samples.

    by: how samples were compared. `class`: right or wrong, with the loss as error. `share`: by the
    share that is wrong. `absolute`: by mean absolute error. `loss`: by loss. worse, better: number
    of samples that became wrong and right by `class`, else whose error rose and fell. The samples
    with the largest change come first. left_out: further samples, of classes that one version does
    not know.
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
