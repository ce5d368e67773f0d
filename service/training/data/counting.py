"""Which labels count: neither those of an ignored class, positions with the label IGNORED, nor
numbers that are not known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import numpy as np
from msgspec.structs import replace

from storage.arrays import NDArray
from storage.readonly.sample_index import SampleIndex
from storage.records.signatures import IGNORED, TargetSpec

NUMBERS_AT_ONCE = 1 << 22
"""Of labels: 32 MB."""


def only_counted(
    index: SampleIndex, target: TargetSpec | None, *, ignore_index: int | None
) -> SampleIndex:
    """The samples with a label that counts. Positions of the ignored class have the label IGNORED.

    ignore_index: a class, or None for no class. target: None for labels as they are stored, which
    stay.
    """
    if target is None or target.num_classes is None:
        return index
    if ignore_index is None and not target.may_ignore:
        return index
    labels = np.where(index.labels == ignore_index, IGNORED, index.labels)
    counted = counts(labels).reshape(len(labels), prod(target.shape))
    return replace(index, labels=labels).only(np.asarray(counted.any(axis=1)))


def counts(labels: NDArray[Any]) -> NDArray[np.bool_]:
    """Whether each class index, or each number, counts. labels: of any target."""
    counted: NDArray[np.bool_] = (
        ~np.isnan(labels) if labels.dtype.kind == "f" else labels != IGNORED
    )
    return counted


def class_counts(labels: Any, chosen: NDArray[np.int64], classes: int) -> NDArray[np.int64]:
    """(classes,): how many labels that count are of each class. labels: of `Batches`. chosen: the
    positions of samples.
    """
    totals = np.zeros(classes, np.int64)
    for some in _parts(labels, chosen):
        totals += np.bincount(some[counts(some)], minlength=classes)
    return totals


def holding(labels: Any, classes: Sequence[int] | NDArray[np.int64]) -> NDArray[np.bool_]:
    """(samples,): whether a label holds one of these classes. labels: of `Batches`."""
    parts = [
        np.isin(some, classes).any(axis=tuple(range(1, some.ndim)))
        for some in _parts(labels, np.arange(len(labels)))
    ]
    return np.concatenate([np.empty(0, bool), *parts])


def _parts(labels: Any, chosen: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """A few labels at a time: an array of all masks would take eight bytes a pixel."""
    at_once = max(1, NUMBERS_AT_ONCE // max(1, labels[chosen[:1]].size))
    for start in range(0, len(chosen), at_once):
        yield labels[chosen[start : start + at_once]]
