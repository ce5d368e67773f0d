"""Masked tokens: which are hidden, and what becomes of them."""

from __future__ import annotations

import numpy as np

from service.preprocess.augmentation.draws import Draws
from service.training.tasks import TASKS
from service.training.tasks.by_token import TextTokens
from storage.records.signatures import IGNORED

MASK, SPECIAL, VOCABULARY = 4, (0, 1, 2, 3, 4), 1000


def masked(seed: int, epoch: int, *, rows: int = 400, pads: int = 0) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(0)
    counts = rng.integers(3, 41, rows)
    ids = rng.integers(5, VOCABULARY, (rows, 40 + pads))
    ids[:, 0] = 2
    for row, count in enumerate(counts):
        ids[row, count - 1] = 3
        ids[row, count:] = 0
    draws = Draws(seed, epoch)
    tokens = TextTokens(
        *(ids, counts, np.zeros(rows, np.int64), VOCABULARY, SPECIAL, MASK),
        draw=lambda row: draws.of(row + 1),
        labels=np.empty((rows, 0)),
        words=None,
        target=TASKS["masked_lm"].target_spec((40, VOCABULARY), None),
    )
    return ids, counts, *TASKS["masked_lm"].labelled(tokens)


def test_fifteen_in_a_hundred_are_hidden_and_nothing_special_is() -> None:
    ids, counts, fed, target = masked(1, 0)
    chosen = target != IGNORED

    assert (target[chosen] == ids[chosen]).all()
    assert (fed[~chosen] == ids[~chosen]).all()
    assert not np.isin(ids[chosen], SPECIAL).any()
    assert (chosen.sum(axis=1) >= 1).all()
    written = (counts - 2).sum()
    assert 0.14 < chosen.sum() / written < 0.19
    assert 0.75 < (fed[chosen] == MASK).mean() < 0.85
    assert 0.06 < (fed[chosen] == ids[chosen]).mean() < 0.14


def test_masks_follow_from_seed_epoch_and_sample_whatever_the_batch() -> None:
    *_, fed, target = masked(1, 0)
    *_, same, _ = masked(1, 0, rows=400)
    assert (fed == same).all()
    assert (fed != masked(1, 1)[2]).any()
    assert (fed != masked(2, 0)[2]).any()
    assert (target[:, -1] == IGNORED).any()
