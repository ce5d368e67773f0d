"""What each sample by itself contributes to a metric, so that two models compare in pairs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from service.training.engine import Array
from service.training.evaluation.metrics import columns

Scores = NDArray[np.float64]
"""(batch,)"""
Score = Callable[[Array, Array], Scores]
"""Of outputs and targets, batch axis first."""


def score_for(metric: str, loss: str) -> Score:
    """The metric, `accuracy`, `loss` or `mae`, of single samples under this loss."""
    if metric == "loss":
        return LOSSES[loss]
    if metric == "mae":
        return absolute_error
    return right_decisions if loss == "bce_with_logits" else right_classes


def right_classes(output: Array, target: Array) -> Scores:
    """Share of a sample's classes that are the likeliest. output: (batch, classes, …)."""
    right: Scores = columns(output.argmax(axis=1) == target).mean(axis=1, dtype=np.float64)
    return right


def right_decisions(output: Array, target: Array) -> Scores:
    """Share of a sample's yes-or-no outputs that are right."""
    right: Scores = ((columns(output) > 0) == (columns(target) >= 0.5)).mean(axis=1)
    return right


def absolute_error(output: Array, target: Array) -> Scores:
    """Mean over a sample's outputs."""
    error: Scores = np.abs(_difference(output, target)).mean(axis=1)
    return error


def squared_error(output: Array, target: Array) -> Scores:
    """Mean over a sample's outputs."""
    error: Scores = np.square(_difference(output, target)).mean(axis=1)
    return error


def cross_entropy(output: Array, target: Array) -> Scores:
    """Mean over a sample's positions. output: (batch, classes, …) logits."""
    logits = output.astype(np.float64)
    logits -= logits.max(axis=1, keepdims=True)
    chosen = np.take_along_axis(logits, np.expand_dims(target, 1), axis=1).squeeze(1)
    loss: Scores = columns(np.log(np.exp(logits).sum(axis=1)) - chosen).mean(axis=1)
    return loss


def binary_cross_entropy(output: Array, target: Array) -> Scores:
    """Mean over a sample's outputs, which are logits; stable for large ones."""
    x, t = columns(output).astype(np.float64), columns(target)
    loss: Scores = (np.maximum(x, 0) - x * t + np.log1p(np.exp(-np.abs(x)))).mean(axis=1)
    return loss


def _difference(output: Array, target: Array) -> Scores:
    difference: Scores = columns(output).astype(np.float64) - columns(target)
    return difference


LOSSES: dict[str, Score] = {
    "cross_entropy": cross_entropy,
    "bce_with_logits": binary_cross_entropy,
    "mse": squared_error,
    "l1": absolute_error,
}
