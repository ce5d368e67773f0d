"""Which labels count: neither those of an ignored class, nor positions with the label IGNORED."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import replace

from storage.readonly.sample_index import SampleIndex
from storage.records.signatures import IGNORED, TargetSpec

if TYPE_CHECKING:
    from numpy.typing import NDArray


def only_counted(
    index: SampleIndex, target: TargetSpec, *, ignore_index: int | None
) -> SampleIndex:
    """The samples with a label that counts. Positions of the ignored class have the label IGNORED.

    ignore_index: a class, or None for no class.
    """
    if target.num_classes is None or (ignore_index is None and not target.may_ignore):
        return index
    labels = np.where(index.labels == ignore_index, IGNORED, index.labels)
    counted = counts(labels).reshape(len(labels), prod(target.shape))
    return replace(index, labels=labels).only(np.asarray(counted.any(axis=1)))


def counts(labels: NDArray[Any]) -> NDArray[np.bool_]:
    """Whether each class index counts. labels: of a target with classes."""
    counted: NDArray[np.bool_] = labels != IGNORED
    return counted


def class_counts(labels: NDArray[Any], classes: int) -> NDArray[np.int64]:
    """(classes,): how many labels that count are of each class. labels: of any shape."""
    return np.bincount(labels[counts(labels)], minlength=classes)
