"""Checks the engine's gradient against the loss itself.

Some gradients of 1.19.2 are silently wrong (measured: Conv with `auto_pad`), and a model that
trains with them ends worse than it started.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]

STEPS = (1e-1, 1e-2, 1e-3)
"""Step lengths along a gradient; one that agrees is enough, since kinks may spoil others."""
TOLERANCE = 0.1
"""Tolerance relative to the slope. A wrong gradient is off by its own size."""
ROUNDING = 1e-6
"""Rounding error of float32, relative to the loss."""
MAX_TENSORS = 32
"""Maximum number of parameters checked, evenly spread over the model."""


def wrong_gradients(
    parameters: Any, trainable: Sequence[str], loss: Callable[[], float]
) -> list[str]:
    """Names of parameters whose gradient does not match the slope of the loss along it.

    parameters: of a checkpoint state, with the gradients of one batch. loss: of that batch.
    """
    stride = -(-len(trainable) // MAX_TENSORS)
    return [name for name in trainable[::stride] if not _agrees(parameters[name], loss)]


def _agrees(parameter: Any, loss: Callable[[], float]) -> bool:
    gradient: Array = parameter.grad
    start: Array = np.array(parameter.data)
    slope = float(np.linalg.norm(gradient))
    if slope == 0:
        return True
    direction = gradient / np.float32(slope)
    try:
        return any(
            _close(parameter, start, step * direction, (slope, step), loss) for step in STEPS
        )
    finally:
        parameter.data = start


def _close(
    parameter: Any,
    start: Array,
    move: Array,
    expected: tuple[float, float],
    loss: Callable[[], float],
) -> bool:
    slope, step = expected
    parameter.data = np.asarray(start + move, np.float32)
    above = loss()
    parameter.data = np.asarray(start - move, np.float32)
    below = loss()
    noise = ROUNDING * max(abs(above), abs(below)) / step
    return abs((above - below) / (2 * step) - slope) <= TOLERANCE * slope + noise
