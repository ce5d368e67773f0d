"""Learns what a model's preprocessing leaves open, once, from its first samples."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from service.preprocess import Standardize, for_model
from service.training.data import Dataset
from storage.records import Model, Split
from storage.sample_index import read_sample_index
from storage.store import Store

BATCH_SIZE = 256


def learn_preprocess(store: Store, model: Model, *, watermark: int) -> Model:
    """The model with all its preprocessing known, when its first job begins.

    Mean and standard deviation come from the first `learn_from` labelled training samples, of all
    if there are fewer, and stay from then on. Without any the model is as it was.
    """
    pipeline = for_model(model)
    open_kinds = [
        kind
        for kind in pipeline.kinds.values()
        if isinstance(kind, Standardize) and not kind.is_learned
    ]
    if not open_kinds:
        return model
    index = read_sample_index(
        store.database,
        store.packs_dir,
        model_id=model.id,
        split=Split.TRAIN,
        watermark=watermark,
        target=model.signature.target,
    )
    if len(index.ids) == 0:
        return model
    samples = Dataset(index, model.signature)
    names = [spec.name for spec in model.signature.inputs]
    learned = {
        kind.input: kind.learn(_rows(samples, names.index(kind.input), kind.learn_from))
        for kind in open_kinds
    }
    return store.models.freeze_preprocess(
        model.id,
        tuple(
            learned[each["input"]].describe() if each["input"] in learned else each
            for each in model.preprocess
        ),
    )


def _rows(samples: Dataset, which: int, most: int | None) -> Iterator[NDArray[Any]]:
    """One input of the first samples, in batches."""
    order = np.arange(min(len(samples), most or len(samples)))
    for inputs, _ in samples.batches(order, batch_size=BATCH_SIZE):
        yield inputs[which]
