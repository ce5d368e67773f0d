"""Fits a model's preprocessing to its first samples, once.

Erasing one of those samples fits it again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from service.preprocess import TensorKind, for_model
from service.training.data.batches import Dataset
from service.training.errors import SamplesInvalid
from storage.arrays import NDArray
from storage.erasure.unlearning import Descriptions
from storage.readonly.sample_index import SampleIndex, read_sample_index
from storage.records.models import Model
from storage.records.samples import Split
from storage.store import Store

BATCH_SIZE = 256
EVERY_ID = 2**63 - 1


def learn_preprocess(store: Store, model: Model, *, watermark: int) -> Model:
    """Fit the model's preprocessing before its first job; returns the model.

    Mean and standard deviation come from the first `learn_from` labelled training samples, or from
    all if there are fewer. Without samples, the model is returned unchanged.
    """
    open_kinds = [kind for kind in _tensor_kinds(model) if not kind.is_learned]
    if not open_kinds:
        return model
    index = _training_samples(store, model, watermark=watermark)
    if len(index.ids) == 0:
        return model
    learned = _learn(open_kinds, index, model)
    return store.models.freeze_preprocess(model.id, _described(model, learned), base=model.base)


def learn_without(store: Store, model: Model, gone: NDArray[np.int64]) -> Descriptions | None:
    """The preprocessing fitted without these samples; None if it was not fitted to any of them.

    It is fitted to the first samples that remain. If none remain, or one does not fit the model, it
    is unfitted again.
    """
    kinds = [kind for kind in _tensor_kinds(model) if kind.is_learned and kind.learn_from]
    if not kinds or not store.unlearning.may_have_taught(model.id, gone):
        return None
    index = _training_samples(store, model, watermark=EVERY_ID)
    rest = index.only(~np.isin(index.ids, gone))
    learned = _learn_or_open(kinds, rest, model)
    return None if learned == kinds else _described(model, learned)


def _tensor_kinds(model: Model) -> list[TensorKind]:
    return [kind for kind in for_model(model).kinds.values() if isinstance(kind, TensorKind)]


def _training_samples(store: Store, model: Model, *, watermark: int) -> SampleIndex:
    return read_sample_index(
        store.database,
        store.packs_dir,
        model_id=model.id,
        split=Split.TRAIN,
        watermark=watermark,
        target=model.signature.target,
    )


def _learn(kinds: Iterable[TensorKind], index: SampleIndex, model: Model) -> list[TensorKind]:
    samples = Dataset(index, model.signature)
    names = [spec.name for spec in model.signature.inputs]
    return [kind.learn(_rows(samples, names.index(kind.input), kind.learn_from)) for kind in kinds]


def _learn_or_open(
    kinds: Iterable[TensorKind], index: SampleIndex, model: Model
) -> list[TensorKind]:
    """A faulty remaining sample must not prevent the erasure of another one."""
    opened = [kind.opened() for kind in kinds]
    try:
        return _learn(kinds, index, model) if len(index.ids) else opened
    except SamplesInvalid:
        return opened


def _described(model: Model, learned: Iterable[TensorKind]) -> Descriptions:
    """The model's descriptions, including the fitted values."""
    new = {kind.input: kind.describe() for kind in learned}
    return tuple(new.get(description["input"], description) for description in model.preprocess)


def _rows(samples: Dataset, which: int, most: int | None) -> Iterator[NDArray[Any]]:
    """Rows of one input of the first samples, in batches."""
    order = np.arange(min(len(samples), most or len(samples)))
    for inputs, _ in samples.batches(order, batch_size=BATCH_SIZE):
        yield inputs[which]
