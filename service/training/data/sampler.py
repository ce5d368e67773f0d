"""Selects the samples of an epoch, and their order."""

from __future__ import annotations

import numpy as np
from msgspec import Struct, field
from numpy.random import PCG64, Generator  # numpy would load it in the first epoch, for 4 ms

from service.training.data.batches import Indices

_NONE: Indices = np.empty(0, np.int64)
POOL_BATCHES = 64


class Sampler(Struct, frozen=True):
    """Draws the epochs of a job; the same for the same samples and seed, on any device.

    own: positions of the samples that are seen once per epoch. base: those of the base set.
    replay: the share of an epoch that is drawn from these. classes: the own positions by class, to
    draw equally many of each; empty to have every own sample once. lengths: of all positions, None
    if they do not differ; batches are of similar ones.
    """

    own: Indices
    base: Indices = field(default_factory=lambda: _NONE)
    replay: float = 0.0
    classes: tuple[Indices, ...] = ()
    lengths: Indices | None = None
    batch_size: int = 1

    def __len__(self) -> int:
        return self._of_own + self.replayed

    @property
    def replayed(self) -> int:
        """Number of base set samples in an epoch."""
        if not len(self.base):
            return 0
        return round(self._of_own * self.replay / (1 - self.replay))

    def epoch(self, epoch: int, *, seed: int) -> Indices:
        """The positions of an epoch, shuffled."""
        own = [self.own] if not self.classes else self._balanced(epoch, seed=seed)
        chosen = np.concatenate([*own, _drawn(self.base, self.replayed, epoch, [seed % 2**64], 1)])
        order = chosen[epoch_order(len(chosen), seed=seed, epoch=epoch)]
        return order if self.lengths is None else self._alike(order, epoch, seed=seed)

    def _alike(self, order: Indices, epoch: int, *, seed: int) -> Indices:
        """The order, rearranged so that the samples of a batch have similar lengths.

        Samples are sorted within pools of POOL_BATCHES batches, and the batches shuffled. The last
        one stays, which may be smaller.
        """
        assert self.lengths is not None
        size, full = self.batch_size, len(order) // self.batch_size
        head = order[: full * size]
        pools = [
            head[at : at + POOL_BATCHES * size] for at in range(0, len(head), POOL_BATCHES * size)
        ]
        ranked = [pool[np.argsort(self.lengths[pool], kind="stable")] for pool in pools]
        if not ranked:
            return order
        batches = np.concatenate(ranked).reshape(full, size)
        shuffled = Generator(PCG64([seed % 2**64, epoch, 3])).permutation(full)
        return np.concatenate([batches[shuffled].reshape(-1), order[len(head) :]])

    @property
    def _of_own(self) -> int:
        return self._of_class * len(self.classes) if self.classes else len(self.own)

    @property
    def _of_class(self) -> int:
        """Number of samples of each class in an epoch."""
        return max(1, round(len(self.own) / len(self.classes)))

    def _balanced(self, epoch: int, *, seed: int) -> list[Indices]:
        return [
            _drawn(label, self._of_class, epoch, [seed % 2**64, place], 2)
            for place, label in enumerate(self.classes)
        ]


def _drawn(pool: Indices, count: int, epoch: int, seeds: list[int], purpose: int) -> Indices:
    """The epoch's part of a pool, which is traversed in rounds, each newly shuffled.

    So all samples come equally often, and no epoch depends on an earlier one.
    """
    if not count:
        return _NONE
    first, skipped = divmod(epoch * count, len(pool))
    last = ((epoch + 1) * count - 1) // len(pool)
    rounds = []
    for number in range(first, last + 1):
        generator = Generator(PCG64([*seeds, number, purpose]))
        rounds.append(pool[generator.permutation(len(pool))])
    return np.concatenate(rounds)[skipped : skipped + count]


def epoch_order(samples: int, *, seed: int, epoch: int) -> Indices:
    """Every position once, shuffled; the same for the same seed and epoch, on any device."""
    generator = Generator(PCG64([seed % 2**64, epoch]))
    return generator.permutation(samples)


def by_class(chosen: Indices, labels: Indices) -> tuple[Indices, ...]:
    """The chosen positions by class, without empty classes. labels: of all positions."""
    own = labels[chosen]
    return tuple(chosen[own == label] for label in np.unique(own))
