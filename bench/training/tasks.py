"""Synthetic tasks: each class has a pattern, each sample adds noise to it."""

from __future__ import annotations

import numpy as np

CLASSES = 10
NOISE, IMAGE_NOISE = 1.0, 0.1
"""Standard deviations; features of an untrained backbone can barely tell classes apart."""
COARSE = 8
"""Side length in pixels at which an image's pattern is drawn, before it is enlarged."""


def task(shape: tuple[int, ...], count: int, *, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """`count` samples of this shape, float32, and their classes; each seed draws other samples."""
    patterns = _patterns(shape)
    generator = np.random.default_rng(seed)
    label = generator.integers(0, CLASSES, count)
    x = generator.standard_normal((count, *shape), dtype=np.float32)
    x *= np.float32(IMAGE_NOISE if len(shape) == 3 else NOISE)
    x += patterns[label]
    return x, label


def _patterns(shape: tuple[int, ...]) -> np.ndarray:
    generator = np.random.default_rng(7)
    if len(shape) < 3:
        return generator.standard_normal((CLASSES, *shape), dtype=np.float32) * np.float32(0.3)
    channels, height, width = shape
    coarse = generator.standard_normal((CLASSES, channels, COARSE, COARSE), dtype=np.float32)
    rows = np.arange(height) * COARSE // height
    columns = np.arange(width) * COARSE // width
    return coarse[:, :, rows][:, :, :, columns]
