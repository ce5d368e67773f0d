"""Per-sample metrics, so that two models can be compared in pairs, and tests of a difference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from service.training.data.counting import counts
from service.training.engine import Array
from service.training.evaluation.metrics import columns
from service.training.protocol.messages.comparison import Interval

PerSample = NDArray[np.float64]
"""(batch,)"""
PerSampleMetric = Callable[[Array, Array], PerSample]
"""Takes outputs and targets, batch axis first."""
RESAMPLES = 2000
SEED = 20_100
"""Fixed, so that the same samples give the same verdict."""


def per_sample_metric(metric: str, loss: str) -> PerSampleMetric:
    """The metric, `accuracy`, `loss` or `mae`, of single samples under this loss."""
    if metric == "loss":
        return LOSSES[loss]
    if metric == "mae":
        return absolute_error
    return right_decisions if loss == "bce_with_logits" else right_classes


def right_classes(output: Array, target: Array) -> PerSample:
    """Share of a sample's positions that are right. output: (batch, classes, …)."""
    return _over_positions(output.argmax(axis=1) == target, target)


def right_decisions(output: Array, target: Array) -> PerSample:
    """Share of a sample's yes-or-no outputs that are right."""
    right: PerSample = ((columns(output) > 0) == (columns(target) >= 0.5)).mean(axis=1)
    return right


def absolute_error(output: Array, target: Array) -> PerSample:
    """Mean over a sample's outputs."""
    error: PerSample = np.abs(_difference(output, target)).mean(axis=1)
    return error


def squared_error(output: Array, target: Array) -> PerSample:
    """Mean over a sample's outputs."""
    error: PerSample = np.square(_difference(output, target)).mean(axis=1)
    return error


def huber(output: Array, target: Array) -> PerSample:
    """Mean over a sample's outputs; quadratic up to 1, linear beyond."""
    error = np.abs(_difference(output, target))
    near = np.minimum(error, 1.0)
    loss: PerSample = (near * (error - near / 2)).mean(axis=1)
    return loss


def cross_entropy(output: Array, target: Array) -> PerSample:
    """Mean over a sample's positions. output: (batch, classes, …) logits."""
    logits = output.astype(np.float64)
    logits -= logits.max(axis=1, keepdims=True)
    index = np.expand_dims(np.where(counts(target), target, 0), 1)
    chosen = np.take_along_axis(logits, index, axis=1).squeeze(1)
    return _over_positions(np.log(np.exp(logits).sum(axis=1)) - chosen, target)


def _over_positions(values: NDArray[Any], target: Array) -> PerSample:
    """Mean over the positions of each sample that count, at least one. values: (batch, …)."""
    mean: PerSample = np.mean(columns(values), axis=1, where=columns(counts(target)), dtype=float)
    return mean


def binary_cross_entropy(output: Array, target: Array) -> PerSample:
    """Mean over a sample's outputs, which are logits; stable for large ones."""
    x, t = columns(output).astype(np.float64), columns(target)
    loss: PerSample = (np.maximum(x, 0) - x * t + np.log1p(np.exp(-np.abs(x)))).mean(axis=1)
    return loss


def paired_bootstrap(
    differences: NDArray[np.float64], *, tick: Callable[[], None], resamples: int = RESAMPLES
) -> Interval:
    """95 % percentile interval and two-sided p-value of the mean of `differences`.

    differences: (samples,), finite, at least one. tick runs every so often, and may raise.
    Source: Efron, Tibshirani (1993), An Introduction to the Bootstrap, chapters 13 and 16.
    """
    generator = np.random.Generator(np.random.PCG64(SEED))
    count = len(differences)
    means = np.empty(resamples)
    for at in range(resamples):
        means[at] = differences[generator.integers(0, count, count)].mean()
        if at % 100 == 0:
            tick()
    beyond = min(int((means <= 0).sum()), int((means >= 0).sum()))
    low, high = np.percentile(means, [2.5, 97.5])
    return Interval(
        difference=float(differences.mean()),
        low=float(low),
        high=float(high),
        p_value=min(1.0, 2 * (beyond + 1) / (resamples + 1)),
    )


def _difference(output: Array, target: Array) -> PerSample:
    difference: PerSample = columns(output).astype(np.float64) - columns(target)
    return difference


LOSSES: dict[str, PerSampleMetric] = {
    "cross_entropy": cross_entropy,
    "bce_with_logits": binary_cross_entropy,
    "mse": squared_error,
    "l1": absolute_error,
    "huber": huber,
}
