"""Which samples an epoch holds, and in which order."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from service.training.data.batches import Indices, epoch_order

_NONE: Indices = np.empty(0, np.int64)


@dataclass(frozen=True)
class Sampler:
    """Draws the epochs of a job; the same for the same samples and seed, on any device.

    own: positions of the samples that are seen once an epoch. base: those of the base set.
    replay: the share of an epoch that is drawn from these.
    """

    own: Indices
    base: Indices = field(default_factory=lambda: _NONE)
    replay: float = 0.0

    def __len__(self) -> int:
        return len(self.own) + self.replayed

    @property
    def replayed(self) -> int:
        """How many samples of the base set an epoch holds."""
        if not len(self.base):
            return 0
        return round(len(self.own) * self.replay / (1 - self.replay))

    def epoch(self, epoch: int, *, seed: int) -> Indices:
        """The positions of an epoch, shuffled."""
        chosen = np.concatenate([self.own, self._drawn(epoch, seed=seed)])
        return chosen[epoch_order(len(chosen), seed=seed, epoch=epoch)]

    def _drawn(self, epoch: int, *, seed: int) -> Indices:
        """The epoch's part of the base set, which is gone through in rounds, shuffled anew.

        So each of its samples comes as often as any other, and epochs depend on no earlier one.
        """
        if not self.replayed:
            return _NONE
        start = epoch * self.replayed
        first, skipped = divmod(start, len(self.base))
        last = (start + self.replayed - 1) // len(self.base)
        rounds = [self.base[self._round(each, seed=seed)] for each in range(first, last + 1)]
        return np.concatenate(rounds)[skipped : skipped + self.replayed]

    def _round(self, number: int, *, seed: int) -> Indices:
        generator = np.random.Generator(np.random.PCG64([seed % 2**64, number, 1]))
        return generator.permutation(len(self.base))
