"""Warns of valid inputs that may make a model worse: a different scale, no variation."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from service.preprocess import for_model
from service.preprocess.moments import LARGE, MAX_FEATURES, MIN_ROWS, Floats, Moments, mean_and_std
from service.samples.ingest import tensors
from service.samples.ingest.csv_header import feature_name
from service.training.tasks import TASKS
from storage.arrays import NDArray
from storage.errors import counted
from storage.records.models import Model
from storage.records.samples import Split
from storage.store import Store

SEEN_SAMPLES = 64
"""Number of stored samples, the newest ones, that an upload is compared with."""
FAR_STDS = 10.0
MIN_VALIDATION = 10
TOLD = 5
"""Maximum number of features that a warning names."""


class Statistics:
    """Statistics of an upload's float inputs, compared with earlier samples of the model."""

    def __init__(self, store: Store, model: Model) -> None:
        self._store = store
        self._model = model
        self._few: list[NDArray[np.uint8]] = []
        self._count = 0
        self._moments: dict[str, Moments] = {}

    def add(self, records: NDArray[np.uint8]) -> None:
        """records: (n, record bytes)."""
        self._few.append(records)
        self._count += len(records)
        if self._count < MIN_ROWS:
            return
        for few in self._few:
            for name, rows in _vectors(self._model, few):
                self._moments.setdefault(name, Moments(rows.shape[1])).add(rows)
        self._few.clear()

    def warnings(self) -> tuple[str, ...]:
        """Call this before the upload is committed, since it compares with stored samples."""
        if not self._moments:
            return ()
        seen = self._seen()
        return tuple(
            warning
            for name, moments in self._moments.items()
            for warning in self._about(name, moments, seen.get(name))
        )

    def _about(
        self, name: str, moments: Moments, seen: tuple[Floats, Floats] | None
    ) -> Iterator[str]:
        """seen: mean and standard deviation of earlier samples."""
        from service.preprocess.standardize import Standardize

        kind = for_model(self._model).kinds.get(name)
        if isinstance(kind, Standardize) and kind.mean is not None and kind.std is not None:
            # One for each channel of a recording, whose values are the features here.
            mean, std = np.broadcast_arrays(kind.mean, kind.std, moments.mean)[:2]
            yield from self._far(name, moments, mean, std, whose="standardize has learned")
        elif seen is not None:
            yield from self._far(name, moments, *seen, whose="the samples before have")
        largest = float(max(moments.high.max(), -moments.low.min()))
        if not isinstance(kind, Standardize) and largest > LARGE:
            yield (
                f"input {name!r} holds values up to {largest:g}; models train best on values of "
                "about 1, which preprocess of kind standardize makes"
            )
        constant = np.flatnonzero(moments.low == moments.high)
        if len(constant):
            yield (
                f"input {name!r}, {self._named(name, constant)}: the same value in all "
                f"{moments.count} samples, from which nothing can be learned"
            )

    def _far(
        self, name: str, moments: Moments, mean: Floats, std: Floats, *, whose: str
    ) -> Iterator[str]:
        shift = np.abs(moments.mean - mean)
        far = np.flatnonzero((shift > FAR_STDS * std) & (std > 0))
        if len(far):
            worst = int(far[np.argmax(shift[far] / std[far])])
            yield (
                f"input {name!r}, {self._named(name, far)}: a mean of {moments.mean[worst]:g} "
                f"where {whose} {mean[worst]:g} and a standard deviation of {std[worst]:g}; "
                "are the units and the order of columns the same?"
            )

    def _named(self, name: str, which: NDArray[np.int64]) -> str:
        """Some of the features, by name if names are known."""
        shown = [
            feature_name(self._model, name, at) or f"feature {at}" for at in which[:TOLD].tolist()
        ]
        more = f" and {len(which) - TOLD} more" if len(which) > TOLD else ""
        return ", ".join(shown) + more

    def _seen(self) -> dict[str, tuple[Floats, Floats]]:
        """Mean and standard deviation of the newest samples by input; empty if there are few."""
        newest = self._store.samples.newest_records(self._model.id, SEEN_SAMPLES)
        if len(newest) < MIN_ROWS:
            return {}
        records = np.frombuffer(b"".join(newest), np.uint8).reshape(len(newest), -1)
        return {name: mean_and_std(rows) for name, rows in _vectors(self._model, records)}


def balance_warnings(store: Store, model: Model) -> Iterator[str]:
    """Warnings about the balance of classes and splits among all samples of a model."""
    counts, labels = store.sample_stats.balance(model.id)
    if counts.train >= MIN_ROWS and counts.validation < MIN_VALIDATION:
        yield (
            f"{counted(counts.validation, 'labelled sample')} for validation beside {counts.train} "
            "for training: too few to compare versions; send some with split validation"
        )
    target = model.signature.target
    if target.num_classes is None or target.num_classes < 2 or target.shape:
        return
    if TASKS[model.loss].trains_on is not None:
        return
    classes = {label for split, label, _ in labels if label is not None and split is Split.TRAIN}
    if len(classes) == 1 and counts.train >= MIN_ROWS:
        (label,) = classes
        name = target.classes[label] if target.classes else label
        yield f"all {counts.train} training samples are of class {name!r}; send others too"


def _vectors(model: Model, records: NDArray[np.uint8]) -> Iterator[tuple[str, NDArray[np.generic]]]:
    """(name, rows) of each input that is a vector of floats, not too long.

    records: (n, record bytes).
    """
    for spec, part in tensors.cut(records, model.signature.inputs):
        is_vector = len(spec.shape) <= 1 and part.dtype.kind == "f"
        if is_vector and 0 < prod(spec.shape) <= MAX_FEATURES:
            yield spec.name, np.ascontiguousarray(part).reshape(len(records), -1)
