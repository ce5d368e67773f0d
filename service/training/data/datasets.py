"""A job's data for training and validation: the samples themselves, or their features."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
from msgspec import Struct, field

from service.training.data.batches import Batches, Indices
from service.training.data.sampler import Sampler, by_class
from service.training.data.samples import READ_ANYWAY, SampleReader, load_samples
from service.training.engines.manifest import manifest_of
from service.training.export.export import Checked
from service.training.hyperparameters import Hyperparameters
from service.training.protocol.messages.training import Train

if TYPE_CHECKING:
    from service.training.data.features import Features, Prefix

CHECK_SAMPLES = 256
CHECK_NUMBERS = 1 << 28
"""Maximum of a step's results for the samples of a check: some 40 ms, in which the trained model
and the exported one are run. A check of 256 pictures took half a second with MobileNetV2."""
CHECK_ROWS = 16
"""Maximum batch size of checks: with two models in memory, larger ones would raise the peak."""


class Datasets(Struct, frozen=True):
    """samples: as the exported model takes them, for training and for validation. train,
    validation: the same as the engine takes them. base: positions of the base set in train.
    checked: maximum number of samples to check an exported model on.
    """

    samples: tuple[Batches, Batches]
    train: Batches
    validation: Batches
    prefix: Prefix | None = None
    base: Indices = field(default_factory=lambda: np.empty(0, np.int64))
    checked: int = CHECK_SAMPLES

    @property
    def own(self) -> Indices:
        """Positions of the training samples without the base set's."""
        # np.setdiff1d would load numpy.ma, for 8 ms of a job's start.
        return np.delete(np.arange(len(self.train)), self.base)

    def sampler(self, wanted: Hyperparameters) -> Sampler:
        """The sampler for these hyperparameters."""
        is_balanced = wanted.sampling == "balanced"
        classes = by_class(self.own, self.train.labels) if is_balanced else ()
        return Sampler(
            self.own,
            self.base,
            wanted.replay or 0.0,
            classes,
            lengths=self.train.lengths,
            batch_size=wanted.batch_size,
        )

    def fill(self, tick: Callable[[], None]) -> None:
        """Compute the features that are not cached yet. tick may raise to end it."""
        if self.prefix is None:
            return
        for split in (self.train, self.validation):
            cast("Features", split).fill(tick)
        self.prefix.close()

    def checks(self, batch_size: int) -> Iterator[Checked]:
        """Some validation samples, or training samples if there are none, to check a model."""
        which = 1 if len(self.validation) else 0
        samples, fed = self.samples[which], (self.train, self.validation)[which]
        some = np.arange(min(len(samples), self.checked))
        rows = min(batch_size, CHECK_ROWS)
        for start in range(0, len(some), rows):
            chosen = some[start : start + rows]
            # In this order: features that are not cached are computed in the samples' buffer.
            features = fed.exact(chosen)
            yield samples.inputs(chosen), features, samples.targets(chosen)


def load_datasets(task: Train, reader: SampleReader, *, threads: int) -> Datasets:
    """Raises NoSamples if there is nothing to train on."""
    if task.artifacts.prefix_model is None:
        samples, base = load_samples(task, reader)
        return Datasets(samples, *samples, base=base, checked=samples_to_check(task))
    # Late: few jobs need it.
    from service.training.data.features import Features, Prefix, open_cache

    prefix = Prefix(Path(task.artifacts.prefix_model), task, threads=threads)
    cache = open_cache(task, prefix, reader)
    samples, base = load_samples(task, reader, cache)
    train_set, validation_set = (Features(split, prefix, cache) for split in samples)
    return Datasets(samples, train_set, validation_set, prefix, base, READ_ANYWAY)


def samples_to_check(task: Train) -> int:
    """How many samples an export without a prefix is checked on: fewer for large models."""
    if task.artifacts.manifest is None:
        return CHECK_SAMPLES
    elements = manifest_of(task.artifacts).work.elements
    return max(READ_ANYWAY, min(CHECK_SAMPLES, CHECK_NUMBERS // max(1, elements)))
