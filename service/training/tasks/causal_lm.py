"""Next-token prediction: the text itself is the label, shifted by one token."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import exp
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from service.training.data.counting import counts as counts_of
from service.training.engine import Array
from service.training.errors import refuse
from service.training.loss import Loss
from service.training.tasks.cross_entropy import compare
from service.training.tasks.loss_graph import LossAndGradient, LossInputs
from service.training.tasks.task import LearningTask, Metric, PassMetrics, PerSample
from storage.records.signatures import IGNORED, TargetSpec

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from service.training.graph.tensor import Shape

RANKS = (1, 3, 5)
CLASS_AXIS = -1
LONGEST = 700.0
"""Of a loss whose exponential float64 holds."""


def next_tokens(
    ids: NDArray[np.int64], counts: NDArray[np.int64], known: NDArray[np.int64]
) -> NDArray[np.int64]:
    """(n, width): the id after each, IGNORED for the last one and for pads.

    ids: (n, width). counts: (n,), how many ids are there. known: (n,), how many of the first are
    context alone, since the window before predicts them.
    """
    places = np.arange(ids.shape[1]) + 1
    after = np.roll(ids, -1, axis=1)
    is_new = (places < counts[:, None]) & (places >= known[:, None])
    return np.where(is_new, after, IGNORED)


def token_losses(output: Array, target: Array) -> PerSample:
    """Mean over the tokens of each sample that count. output: (batch, tokens, vocabulary)."""
    losses = np.zeros(len(output))
    for row, (logits, wanted) in enumerate(zip(output, target, strict=True)):
        there = counts_of(wanted)
        if there.any():
            wide = logits[there].astype(np.float64)
            wide -= wide.max(axis=1, keepdims=True)
            chosen = np.take_along_axis(wide, wanted[there][:, None], axis=1)[:, 0]
            losses[row] = (np.log(np.exp(wide).sum(axis=1)) - chosen).mean()
    return losses


def ranks(output: Array, target: Array) -> list[NDArray[np.int64]]:
    """Of each sample, how many tokens are likelier than the one that came, where it counts."""
    found = []
    for logits, wanted in zip(output, target, strict=True):
        there = counts_of(wanted)
        scores = logits[there]
        own = np.take_along_axis(scores, wanted[there][:, None], axis=1)
        found.append((scores > own).sum(axis=1))
    return found


def _top(most: int) -> Metric:
    """The share of tokens that were among the likeliest."""

    def of_samples(output: Array, target: Array) -> PerSample:
        shares = [(each < most).mean() if len(each) else 0.0 for each in ranks(output, target)]
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
        """TextTokens: batches differ in length, so that shares of it do not compare."""
        tokens: PerSample = counts_of(target).sum(axis=1).astype(np.float64)
        return tokens

    def update(self, output: Array, target: Array) -> None:
        tokens = self.weights(target)
        self._loss += float(token_losses(output, target) @ tokens)
        self._tokens += int(tokens.sum())
        for each in ranks(output, target):
            for most in RANKS:
                self._near[most] += int((each < most).sum())

    def result(self) -> dict[str, Any]:
        total = self._tokens
        near = {f"top_{most}_token_accuracy": n / (total or 1) for most, n in self._near.items()}
        if not total:
            return {"perplexity": None, **dict.fromkeys(near), "tokens": 0}
        return {"perplexity": perplexity(self._loss / total), **near, "tokens": total}


class TextTokens(Struct, frozen=True):
    """Texts of which a task makes inputs and labels. ids: (n, width). counts: (n,), how many are
    there. known: (n,), how many of the first the window before holds. special: ids that are no part
    of what was written. draw: a row's generator, valid until the next call; the same numbers for a
    text and an epoch of a job, whatever the batch.
    """

    ids: NDArray[np.int64]
    counts: NDArray[np.int64]
    known: NDArray[np.int64]
    vocabulary: int
    special: Sequence[int]
    mask_id: int | None
    draw: Callable[[int], np.random.Generator]


class CausalLM(LearningTask):
    """Logits (batch, tokens, vocabulary): those at each token are of the one after it."""

    name = "causal_lm"
    title = "next token: a text is its own label"
    label_dtype = "int64"
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
        """The ids that are fed, and the labels. (n, width) each."""
        return tokens.ids, next_tokens(tokens.ids, tokens.counts, tokens.known)

    def compare(self, loss: Loss, inputs: LossInputs) -> LossAndGradient:
        return compare(replace(loss, class_axis=CLASS_AXIS), inputs)

    def target_shape(self, loss: Loss, output: Shape) -> Shape:
        return output[:-1]

    def weight(self, loss: Loss, target: Array) -> float:
        return float(counts_of(target).sum() / target[0].size)

    def target_spec(self, output: Sequence[int], classes: tuple[str, ...] | None) -> TargetSpec:
        if len(output) != 2 or output[1] < 2:
            raise refuse(
                "/spec/loss",
                f"{self.name} takes logits (batch, tokens, vocabulary), and a row of the output "
                f"has the shape {list(output)}; for a class of each text choose cross_entropy",
            )
        return TargetSpec("labels", "int64", (0,))

    def fed_target(self, target: TargetSpec, row: Sequence[int]) -> TargetSpec:
        tokens, vocabulary = row
        return TargetSpec("labels", "int64", (tokens,), vocabulary)

    def pass_metrics(self, target: TargetSpec) -> PassMetrics:
        return TokenMetrics()
