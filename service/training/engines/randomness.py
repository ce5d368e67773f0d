"""Random numbers fed to a step: the same for a seed, however the batch is split."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from service.training.engine import Array
from service.training.engines.manifest import Draw


def draw_all(draws: Sequence[Draw], *, seed: int, batch: int, rows: int) -> dict[str, Array]:
    """Uniform float32 numbers in [0, 1) for a whole batch.

    seed: of the step. batch: its number within the step. Source: Salmon et al. (2011), Parallel
    random numbers: as easy as 1, 2, 3; every input has its own counter.
    """
    drawn: dict[str, Array] = {}
    for place, draw in enumerate(draws):
        generator = np.random.Generator(np.random.Philox(key=seed, counter=[0, 0, batch, place]))
        shape = [rows if size == -1 else size for size in draw.shape]
        drawn[draw.name] = generator.random(shape, dtype=np.float32)
    return drawn
