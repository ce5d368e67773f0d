"""What the device's camera makes of the digits: writes device.npz and kept_back.npz.

A front camera mirrors the picture; this one also washes out the contrast and adds noise.

    python examples/digits/camera.py [FOLDER]
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from dataset import HERE, Digits, split
from numpy.typing import NDArray

BLACK_LEVEL, GAIN, NOISE = 0.3, 0.6, 0.08


def see(images: NDArray[np.float32], rng: np.random.Generator) -> NDArray[np.float32]:
    """Mirrored, washed out, noisy, in 256 levels. images and result: (n, 1, 8, 8) in [0, 1]."""
    mirrored = images[..., ::-1]
    signal = BLACK_LEVEL + GAIN * mirrored + NOISE * rng.standard_normal(images.shape)
    levels = np.clip(np.rint(signal * 255), 0, 255)
    return (levels / 255).astype(np.float32)


def write(path: Path, digits: Digits, rng: np.random.Generator) -> None:
    """One npz as the samples route takes it: an array named as the input, and `label`."""
    np.savez_compressed(path, image=see(digits.images, rng), label=digits.labels)


def main(folder: Path) -> None:
    """Both files come from one generator, in this order."""
    _, device, kept_back = split()
    rng = np.random.default_rng(1)
    write(folder / "device.npz", device, rng)
    write(folder / "kept_back.npz", kept_back, rng)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
