"""Random numbers that depend only on seed, sample and epoch.

Philox is a counter-based generator: no number depends on earlier draws. So an interrupted job draws
the same numbers, in any order and on any thread. Source: Salmon, Moraes, Dror, Shaw (2011),
Parallel Random Numbers: As Easy as 1, 2, 3.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

MIX = 1 << 32
"""The place of draws that concern a batch; draws for an input use its position."""


class Draws:
    """The random numbers of one epoch."""

    def __init__(self, seed: int, epoch: int) -> None:
        self._seed = seed % 2**64
        self._epoch = epoch

    @cached_property  # late: most jobs draw nothing
    def _generator(self) -> np.random.Generator:
        return np.random.Generator(np.random.Philox(0))

    def of(self, sample_id: int, place: int = 0) -> np.random.Generator:
        """Those of one sample and input; valid until the next call."""
        # Four times as fast as a new generator.
        self._generator.bit_generator.state = {
            "bit_generator": "Philox",
            "state": {
                "counter": np.array((0, place, self._epoch, 0), np.uint64),
                "key": np.array((self._seed, sample_id), np.uint64),
            },
            "buffer": np.zeros(4, np.uint64),
            "buffer_pos": 4,
            "has_uint32": 0,
            "uinteger": 0,
        }
        return self._generator
