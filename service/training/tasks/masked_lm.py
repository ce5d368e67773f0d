"""Masked tokens: some tokens of a text are hidden, and told from those on both sides.

Source: Devlin et al. (2019), BERT, 3.1: of the tokens that are chosen, 80 % are masked, 10 % become
another one, and 10 % stay.
"""

from __future__ import annotations

import numpy as np

from service.training.tasks.by_token import TextTokens
from service.training.tasks.causal_lm import CausalLM
from storage.arrays import NDArray
from storage.records.signatures import IGNORED

CHOSEN, MASKED, CHANGED = 0.15, 0.8, 0.1


class MaskedLM(CausalLM):
    """Logits (batch, tokens, vocabulary): those at each token are of the one that was there."""

    name = "masked_lm"
    title = "masked tokens: a text is its own label"
    needs_mask, continues_texts = True, False

    def labelled(self, tokens: TextTokens) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        assert tokens.mask_id is not None
        ids = tokens.ids.copy()
        target = np.full_like(ids, IGNORED)
        hidden = np.isin(ids, tokens.special) | (np.arange(ids.shape[1]) >= tokens.counts[:, None])
        for row in range(len(ids)):
            places = np.flatnonzero(~hidden[row])
            if not len(places):
                continue
            generator, count = tokens.draw(row), max(1, round(CHOSEN * len(places)))
            chosen = generator.choice(places, count, replace=False)
            target[row, chosen] = ids[row, chosen]
            fate = generator.random(count)
            others = generator.integers(0, tokens.vocabulary, count)
            ids[row, chosen[fate < MASKED]] = tokens.mask_id
            moved = (fate >= MASKED) & (fate < MASKED + CHANGED)
            ids[row, chosen[moved]] = others[moved]
        return ids, target
