"""Next-token prediction: the text itself is the label, shifted by one token."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp
from typing import Any, ClassVar

import numpy as np

from service.training.data.counting import counts as counts_of
from service.training.engine import Array
from service.training.tasks.by_token import TextTokens, TokenTask, token_counts, token_losses
from service.training.tasks.task import Metric, PassMetrics, PerSample, ranks
from storage.arrays import NDArray
from storage.records.signatures import IGNORED, TargetSpec

RANKS = (1, 3, 5)
LONGEST = 700.0
"""Of a loss whose exponential float64 holds."""


def next_tokens(
    ids: NDArray[np.int64], counts: NDArray[np.int64], known: NDArray[np.int64]
) -> NDArray[np.int64]:
    """(n, width): the id after each, IGNORED for the last one and for pads.

    ids: (n, width). counts: (n,), how many ids are there. known: (n,), how many of the first are
    context alone, since the window before predicts them.
    """
    places = np.arange(1, ids.shape[1])
    is_new = (places < counts[:, None]) & (places >= known[:, None])
    labels = np.full(ids.shape, IGNORED)
    np.copyto(labels[:, :-1], ids[:, 1:], where=is_new)
    return labels


def token_ranks(output: Array, target: Array) -> list[NDArray[np.int64]]:
    """Of each sample, how many tokens come before the right one, where it counts."""
    parts = ((each, wanted, counts_of(wanted)) for each, wanted in zip(output, target, strict=True))
    return [ranks(logits[there], wanted[there]) for logits, wanted, there in parts]


def _top(most: int) -> Metric:
    """The share of tokens that were among the likeliest."""

    def of_samples(output: Array, target: Array) -> PerSample:
        shares = [
            (places < most).mean() if len(places) else 0.0 for places in token_ranks(output, target)
        ]
        return np.array(shares, np.float64)

    return Metric(f"top_{most}_token_accuracy", of_samples, True)


def perplexity(loss: Any) -> float:
    """Of the mean loss of a token."""
    return exp(min(float(loss), LONGEST))


class TokenMetrics(PassMetrics):
    """perplexity: the exponential of the loss of a token. top_N_token_accuracy: the share of tokens
    that were among the N likeliest, the text before them given.
    """

    def __init__(self) -> None:
        self._loss, self._tokens = 0.0, 0
        self._near = dict.fromkeys(RANKS, 0)

    def weights(self, target: Array) -> PerSample:
        """Tokens: batches differ in length, so that shares of it do not compare."""
        return token_counts(target)

    def update(self, output: Array, target: Array) -> None:
        tokens = self.weights(target)
        self._loss += float(token_losses(output, target) @ tokens)
        self._tokens += int(tokens.sum())
        for places in token_ranks(output, target):
            for most in RANKS:
                self._near[most] += int((places < most).sum())

    def result(self) -> dict[str, Any]:
        total = self._tokens
        near = {f"top_{most}_token_accuracy": n / (total or 1) for most, n in self._near.items()}
        if not total:
            return {"perplexity": None, **dict.fromkeys(near), "tokens": 0}
        return {"perplexity": perplexity(self._loss / total), **near, "tokens": total}


class CausalLM(TokenTask):
    """Logits (batch, tokens, vocabulary): those at each token are of the one after it."""

    name = "causal_lm"
    title = "next token: a text is its own label"
    makes_labels = continues_texts = True
    needs_mask: ClassVar[bool] = False
    """Whether it hides tokens, by one that the tokenizer has for that."""
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("perplexity", token_losses, figure=perplexity),
        *(_top(most) for most in RANKS),
        Metric("loss", token_losses),
    )
    last_operators = (
        ("Softmax", "the probabilities of tokens"),
        ("LogSoftmax", "the logarithms of probabilities of tokens"),
    )

    def labelled(self, tokens: TextTokens) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return tokens.ids, next_tokens(tokens.ids, tokens.counts, tokens.known)

    def target_spec(self, output: Sequence[int], classes: tuple[str, ...] | None) -> TargetSpec:
        self.check_row(output, "vocabulary")
        return TargetSpec("labels", "int64", (0,))

    def pass_metrics(self, target: TargetSpec) -> PassMetrics:
        return TokenMetrics()
