"""Which head is taken when cross-validation can hardly tell them apart."""

from __future__ import annotations

import numpy as np
import pytest

from service.training.heads.selection import Score, simplest

ROUNDS = 3
POSITIONS = np.tile(np.arange(40), ROUNDS)


def losses(mean: float, *, spread: float = 0.0, seed: int = 0) -> Score:
    """Of 40 samples, each judged in three rounds alike."""
    of_sample = np.random.default_rng(seed).standard_normal(40) * spread
    return Score(0.9, np.tile(mean + of_sample - of_sample.mean(), ROUNDS))


def test_the_standard_error_counts_a_sample_once_however_often_it_was_judged() -> None:
    ours, theirs = losses(0.5, spread=0.2, seed=1), losses(0.4)
    once = (ours.losses - theirs.losses)[:40]
    expected = once.std(ddof=1) / np.sqrt(40)
    assert ours.doubt(theirs, POSITIONS) == pytest.approx(expected)


@pytest.mark.parametrize(("prototype", "taken"), [(0.41, "prototype"), (0.5, "linear")])
def test_a_quicker_head_is_taken_if_it_is_hardly_worse(prototype: float, taken: str) -> None:
    scores = {"prototype": losses(prototype, spread=0.2, seed=1), "linear": losses(0.4)}
    assert simplest(scores, POSITIONS) == taken  # type: ignore[arg-type]
