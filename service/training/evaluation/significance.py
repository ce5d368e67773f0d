"""Paired tests of whether two models differ on the same samples beyond chance."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from service.training.protocol.messages.comparison import Interval
from service.training.tasks.task import PerSample

RESAMPLES = 2000
SEED = 20_100
"""Fixed, so that the same samples give the same verdict."""


def discordant(ours: PerSample, theirs: PerSample) -> tuple[int, int]:
    """How many samples only the baseline gets right, and how many only the candidate."""
    return int((theirs > ours).sum()), int((ours > theirs).sum())


def paired_bootstrap(
    ours: PerSample,
    theirs: PerSample,
    figure: Callable[[NDArray[np.float64]], float] | None = None,
    *,
    tick: Callable[[], None],
    resamples: int = RESAMPLES,
) -> Interval:
    """95 % percentile interval and two-sided p-value of the difference of two models' figures.

    ours, theirs: (samples,) or (samples, …), finite, at least one. figure: of their mean over
    samples, None for that mean. tick runs every so often, and may raise.
    Source: Efron, Tibshirani (1993), An Introduction to the Bootstrap, chapters 13 and 16.
    """

    def difference(chosen: NDArray[np.int64]) -> float:
        if figure is None:
            return float(differences[chosen].mean())
        return figure(ours[chosen].mean(axis=0)) - figure(theirs[chosen].mean(axis=0))

    differences = ours - theirs
    generator = np.random.Generator(np.random.PCG64(SEED))
    count = len(differences)
    means = np.empty(resamples)
    for at in range(resamples):
        means[at] = difference(generator.integers(0, count, count))
        if at % 100 == 0:
            tick()
    beyond = min(int((means <= 0).sum()), int((means >= 0).sum()))
    low, high = np.percentile(means, [2.5, 97.5])
    return Interval(
        difference=difference(np.arange(count)),
        low=float(low),
        high=float(high),
        p_value=min(1.0, 2 * (beyond + 1) / (resamples + 1)),
    )
