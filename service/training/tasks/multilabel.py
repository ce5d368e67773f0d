"""Several labels at once, each by its name: binary cross entropy, judged by F1.

`bce_with_logits` takes any numbers from 0 to 1, such as the pixels of a mask, and counts all its
decisions alike. Here an output is a label that a sample has or lacks, and rare labels count.
"""

from __future__ import annotations

from collections.abc import Sequence

from service.training.data.counting import counts
from service.training.engine import Array
from service.training.errors import misfit
from service.training.tasks.binary import (
    BinaryCrossEntropy,
    binary_cross_entropy,
    right_decisions,
    sigmoid,
)
from service.training.tasks.by_class import (
    F1,
    PRECISION,
    RECALL,
    in_columns,
    macro_f1,
    micro_f1,
)
from service.training.tasks.task import Metric, PassMetrics, PerSample, columns, likeliest
from storage.records.signatures import TargetSpec


def decision_counts(output: Array, target: Array) -> PerSample:
    """(batch, 3 * labels): whether each label is rightly predicted, true, and predicted, as shares
    of those that are known.
    """
    known = columns(counts(target))
    truth, predicted = columns(target) >= 0.5, (columns(output) > 0) & known
    counted: PerSample = in_columns(truth & predicted, truth, predicted)
    counted /= known.mean(axis=1, keepdims=True)
    return counted


class Multilabel(BinaryCrossEntropy):
    """Labels that a sample has (1) or lacks (0), by logits (batch, labels)."""

    name = "multilabel"
    title = "multilabel: any of several named labels"
    metrics = (
        Metric("micro_f1", decision_counts, True, micro_f1),
        Metric("macro_f1", decision_counts, True, macro_f1),
        Metric("accuracy", right_decisions, True),
        Metric("loss", binary_cross_entropy),
    )
    by_class = (
        Metric("f1", decision_counts, True, of_class=F1),
        Metric("precision", decision_counts, True, of_class=PRECISION),
        Metric("recall", decision_counts, True, of_class=RECALL),
    )
    takes_class_names = names_several = ranks_classes = True

    def target_spec(self, output: Sequence[int], classes: tuple[str, ...] | None) -> TargetSpec:
        if len(output) != 1:
            raise misfit(self.name, "logits (batch, labels)", output, "; choose bce_with_logits")
        return super().target_spec(output, classes)

    def pass_metrics(self, target: TargetSpec) -> PassMetrics:
        from service.training.evaluation.metrics import MultiLabel

        return MultiLabel(by_label=True)

    def prediction(self, output: Array, *, top: int | None) -> dict[str, Array]:
        """`probabilities` by label; with `top` instead, the likeliest labels."""
        probabilities = sigmoid(output).astype(output.dtype)
        return {"probabilities": probabilities} if top is None else likeliest(probabilities, top)
