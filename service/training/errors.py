"""Errors of the training child that a retry would not fix."""

from __future__ import annotations

from collections.abc import Sequence

from storage.errors import HoneError, Problem


class GraphRefused(HoneError):
    """The ONNX file cannot be trained; `problems` lists every cause with its node."""


class NoSamples(HoneError):
    """The model has no labelled training samples up to the watermark."""


class TooFewSamples(HoneError):
    """An update would come from fewer samples than the device allows."""


class DeadlinePassed(HoneError):
    """A round's deadline passed before there was an update to send."""


class LossNotFinite(HoneError):
    """The loss became NaN or infinite; a lower learning rate may help."""


class ExportMismatch(HoneError):
    """The exported model does not compute the same as the trained model."""


class SamplesInvalid(HoneError):
    """A stored label or record does not fit the model's signature."""


class CheckpointUnreadable(HoneError):
    """A checkpoint is damaged, or does not belong to the model."""


class ArtifactsUnreadable(HoneError):
    """The engine cannot load the training artifacts."""


class EngineMissing(HoneError):
    """The model needs an engine that is not installed."""


class VariantRefused(HoneError):
    """The model has no such variant, or one that is worse than the gate allows."""


class OutOfMemory(HoneError):
    """The child reached its memory limit, or the device ran out of memory."""


def refusal(problems: Sequence[Problem]) -> GraphRefused:
    """All problems as one error, whose text gives their number."""
    if len(problems) == 1:
        return GraphRefused(problems[0].detail, problems=problems)
    first = problems[0].detail
    return GraphRefused(f"{len(problems)} things are wrong, the first: {first}", problems=problems)


def refuse(place: str, detail: str) -> GraphRefused:
    """An error with one problem."""
    return refusal([Problem(place, detail)])


def misfit(loss: str, takes: str, row: Sequence[int], remedy: str = "") -> GraphRefused:
    """The error for an output whose rows have another shape than the loss takes."""
    told = f"{loss} takes {takes}, and a row of the output has the shape {list(row)}"
    return refuse("/spec/loss", told + remedy)
