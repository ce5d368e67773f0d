"""Paired tests of whether two models differ on the same samples beyond chance."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from service.training.protocol.messages.comparison import Interval
from service.training.tasks.task import PerSample

RESAMPLES = 2000
SETS_AT_ONCE = 100
NUMBERS_AT_ONCE = 4_000_000
"""Indices of samples drawn at once: 32 MB."""
SEED = 20_100
"""Fixed, so that the same samples give the same verdict."""


def discordant(ours: PerSample, theirs: PerSample) -> tuple[int, int]:
    """How many samples only the baseline gets right, and how many only the candidate."""
    return int((theirs > ours).sum()), int((ours > theirs).sum())


def paired_bootstrap(
    ours: PerSample,
    theirs: PerSample,
    figure: Callable[[NDArray[np.float64]], float] | None = None,
    of_rows: Callable[[PerSample, PerSample], PerSample] | None = None,
    *,
    tick: Callable[[], None],
    resamples: int = RESAMPLES,
) -> Interval:
    """95 % percentile interval and two-sided p-value of the difference of two models' figures.

    ours, theirs: (samples,) or (samples, …), finite, at least one. figure: of their mean over
    samples, None for that mean. of_rows: see `Metric`. tick runs every so often, and may raise.
    No test of n pairs is surer than 2 / 2^n, what their signs tell.
    Source: Efron, Tibshirani (1993), An Introduction to the Bootstrap, chapters 13 and 16.
    """
    count, differences = len(ours), ours - theirs

    def gains(chosen: NDArray[np.int64]) -> list[float]:
        if figure is None and of_rows is None:
            return [float(differences[drawn_rows].mean()) for drawn_rows in chosen]
        weights = np.array([np.bincount(draw, minlength=count) for draw in chosen], np.float64)
        if of_rows is not None:
            return list((of_rows(ours, weights) - of_rows(theirs, weights)).tolist())
        assert figure is not None
        pairs = zip(*(_means(scores, weights) for scores in (ours, theirs)), strict=True)
        return [figure(new) - figure(old) for new, old in pairs]

    generator = np.random.Generator(np.random.PCG64(SEED))
    drawn: list[float] = []
    while len(drawn) < resamples:
        sets = min(SETS_AT_ONCE, resamples - len(drawn), max(1, NUMBERS_AT_ONCE // count))
        drawn += gains(generator.integers(0, count, (sets, count)))
        tick()
    difference = gains(np.arange(count)[None])[0]
    widened = difference + (np.array(drawn) - difference) * widening(count)
    beyond = min(int((widened <= 0).sum()), int((widened >= 0).sum()))
    low, high = np.percentile(widened, [2.5, 97.5])
    return Interval(
        difference=difference,
        low=float(low),
        high=float(high),
        p_value=min(1.0, max(2 * (beyond + 1) / (resamples + 1), 2.0 ** (1 - count))),
    )


def widening(count: int) -> float:
    """What gives percentiles of resamples the width of Student's interval; 1.43 for six samples.

    Resamples of few samples vary less than new samples would. Sources: Hesterberg (2015), What
    Teachers Should Know About the Bootstrap, 4.2; for the quantile Abramowitz, Stegun, 26.7.5.
    """
    square, rest = 1.959964**2, 1 / max(1, count - 1)
    student = 1 + (square + 1) / 4 * rest + (5 * square**2 + 16 * square + 3) / 96 * rest**2
    return float(student * sqrt(1 + rest))


def _means(scores: PerSample, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """(sets, …). weights: (sets, samples), how often each sample is in a set."""
    of_sets: NDArray[np.float64] = weights @ scores.reshape(len(scores), -1) / len(scores)
    return of_sets.reshape(len(weights), *scores.shape[1:])
