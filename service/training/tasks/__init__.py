"""What models learn: each task in a module that declares all of it, and their list."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, TypeAlias

from service.training.tasks.binary import BinaryCrossEntropy
from service.training.tasks.causal_lm import CausalLM
from service.training.tasks.cross_entropy import CrossEntropy
from service.training.tasks.detection import Detection
from service.training.tasks.masked_lm import MaskedLM
from service.training.tasks.multilabel import Multilabel
from service.training.tasks.numbers import AbsoluteError, Huber, SquaredError
from service.training.tasks.own import LossOfModel
from service.training.tasks.reconstruction import OneClass, Reconstruction
from service.training.tasks.supcon import SupervisedContrastive
from service.training.tasks.task import LearningTask, Metric
from service.training.tasks.token_classification import TokenClassification

TASKS: dict[str, LearningTask] = {
    task.name: task
    for task in (
        *(CrossEntropy(), SquaredError(), BinaryCrossEntropy(), AbsoluteError(), Huber()),
        *(Multilabel(), SupervisedContrastive(), CausalLM(), MaskedLM()),
        *(TokenClassification(), Detection(), Reconstruction(), OneClass(), LossOfModel()),
    )
}
"""By the name of the loss; of those that fit an output, the first is suggested."""
OWN = LossOfModel.name
FITS_ALL = SquaredError.name
"""The loss that is assumed where none is named or suggested."""
METRICS: dict[str, Metric] = {
    metric.name: metric for task in TASKS.values() for metric in (*task.by_class, *task.metrics)
}
"""By name, which has the same direction and unit in all tasks."""
if TYPE_CHECKING:
    LossName: TypeAlias = str
    MetricName: TypeAlias = str
else:
    LossName = Literal[tuple(name for name in TASKS if name != OWN)]
    MetricName = Literal[tuple(METRICS)]


def losses(declare: Callable[[LearningTask], bool]) -> str:
    """The names of the losses whose tasks declare something, for a sentence."""
    return ", ".join(name for name, task in TASKS.items() if declare(task))
