"""What tasks have in common that compare logits with a class of each token of a text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from service.training.data.counting import counts as counts_of
from service.training.engine import Array
from service.training.errors import misfit
from service.training.loss import Loss
from service.training.tasks.cross_entropy import compare
from service.training.tasks.loss_graph import LossAndGradient, LossInputs
from service.training.tasks.task import LearningTask, PerSample
from storage.arrays import NDArray
from storage.records.signatures import TargetSpec

if TYPE_CHECKING:
    from service.training.graph.tensor import Shape

CLASS_AXIS = -1


def token_losses(output: Array, target: Array) -> PerSample:
    """Mean over the tokens of each sample that count. output: (batch, tokens, classes)."""
    losses = np.zeros(len(output))
    for row, (logits, wanted) in enumerate(zip(output, target, strict=True)):
        there = counts_of(wanted)
        if there.any():
            wide = logits[there].astype(np.float64)
            wide -= wide.max(axis=1, keepdims=True)
            chosen = np.take_along_axis(wide, wanted[there][:, None], axis=1)[:, 0]
            losses[row] = (np.log(np.exp(wide).sum(axis=1)) - chosen).mean()
    return losses


def token_counts(target: Array) -> PerSample:
    """(batch,): how many tokens of each sample count."""
    counted: PerSample = counts_of(target).sum(axis=1).astype(np.float64)
    return counted


class TextTokens(Struct, frozen=True):
    """Texts of which a task makes inputs and labels. ids: (n, width). counts: (n,), how many are
    there. known: (n,), how many of the first the window before holds. special: ids that are no part
    of what was written. draw: a row's generator, valid until the next call; the same numbers for a
    text and an epoch of a job, whatever the batch. labels: (n,), as they are stored. words: of a
    task of spans, (2, n, width), see service/preprocess/words.py. target: of the model.
    """

    ids: NDArray[np.int64]
    counts: NDArray[np.int64]
    known: NDArray[np.int64]
    vocabulary: int
    special: Sequence[int]
    mask_id: int | None
    draw: Callable[[int], np.random.Generator]
    labels: NDArray[Any]
    words: NDArray[np.int64] | None
    target: TargetSpec


class TokenTask(LearningTask):
    """Logits (batch, tokens, classes), compared at the tokens whose label is not IGNORED."""

    label_dtype = "int64"
    labels_tokens = True

    def labelled(self, tokens: TextTokens) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The ids that are fed, and the labels. (n, width) each."""
        raise NotImplementedError

    def check_row(self, row: Sequence[int], classes: str) -> None:
        """Raises GraphRefused unless it has logits for each token. classes: what they are of."""
        if len(row) != 2 or row[1] < 2:
            takes = f"logits (batch, tokens, {classes})"
            raise misfit(self.name, takes, row, "; for a class of each text choose cross_entropy")

    def compare(self, loss: Loss, inputs: LossInputs) -> LossAndGradient:
        return compare(replace(loss, class_axis=CLASS_AXIS), inputs)

    def target_shape(self, loss: Loss, output: Shape) -> Shape:
        return output[:-1]

    def weight(self, loss: Loss, target: Array) -> float:
        return float(counts_of(target).sum() / target[0].size)

    def fed_target(self, target: TargetSpec, row: Sequence[int]) -> TargetSpec:
        tokens, classes = row
        return TargetSpec("labels", "int64", (tokens,), classes)
