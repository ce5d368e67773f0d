"""Eight devices, each with its own camera, and the digits that each has seen."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper, parser

DIGITS = Path(__file__).parents[1] / "digits" / "digits.csv.gz"
SIZES = (64, 256, 10)
NETWORK = """
<ir_version: 8, opset_import: ["" : 17]>
digits (float[N, 64] x) => (float[N, 10] logits) {
    hidden = Gemm (x, "layer0.weight", "layer0.bias")
    active = Relu (hidden)
    logits = Gemm (active, "layer1.weight", "layer1.bias")
}
"""
KEPT_BACK = 397
OWN_SHARE = 0.6
"""Of a device's pictures, those of the five digits that it sees mostly."""

Images = NDArray[np.float32]
Labels = NDArray[np.int64]


@dataclass(frozen=True)
class Pictures:
    """images: (n, 64) float32 in [0, 1]. labels: (n,), 0 to 9."""

    images: Images
    labels: Labels


@dataclass(frozen=True)
class Camera:
    """What it makes of light: a level of black, contrast, noise, blur, a side that is darker."""

    black: float
    gain: float
    noise: float
    blur: float = 0.0
    dark_side: float = 0.0

    def see(self, images: Images, draws: np.random.Generator) -> Images:
        """In 256 levels. images: (n, 64)."""
        square = images.reshape(-1, 8, 8)
        padded = np.pad(square, ((0, 0), (1, 1), (1, 1)), mode="edge")
        around = (
            padded[:, :-2, 1:-1] + padded[:, 2:, 1:-1] + padded[:, 1:-1, :-2] + padded[:, 1:-1, 2:]
        )
        soft = (1 - self.blur) * square + self.blur * around / 4
        shade = 1 - self.dark_side * np.linspace(0, 1, 8, dtype=np.float32)
        light = (self.black + self.gain * soft) * shade
        seen = light + self.noise * draws.standard_normal(square.shape)
        levels = np.clip(np.rint(seen * 255), 0, 255)
        return (levels / 255).astype(np.float32).reshape(-1, 64)


CAMERAS = (
    Camera(black=0.0, gain=1.0, noise=0.05),
    Camera(black=0.1, gain=0.7, noise=0.08),
    Camera(black=0.0, gain=0.8, noise=0.05, blur=0.4),
    Camera(black=0.04, gain=0.9, noise=0.05, dark_side=0.32),
    Camera(black=0.0, gain=0.6, noise=0.05, blur=0.16),
    Camera(black=0.07, gain=0.8, noise=0.12),
    Camera(black=0.04, gain=0.8, noise=0.05, blur=0.24, dark_side=0.16),
    Camera(black=0.14, gain=0.7, noise=0.05, blur=0.08, dark_side=0.08),
)


def digits() -> tuple[Pictures, Pictures]:
    """To learn from, and kept back; shuffled, so that each part holds every writer."""
    with gzip.open(DIGITS, "rt", encoding="ascii") as file:
        rows = np.loadtxt(file, delimiter=",", dtype=np.int64)
    order = np.random.default_rng(0).permutation(len(rows))
    images, labels = (rows[order, :64] / 16).astype(np.float32), rows[order, 64]
    learned = slice(KEPT_BACK, None)
    return (
        Pictures(images[learned], labels[learned]),
        Pictures(images[:KEPT_BACK], labels[:KEPT_BACK]),
    )


def seen_by(device: int, learned: Pictures, count: int) -> Pictures:
    """What a device has collected: mostly five of the digits, by its own camera.

    A ninth device has a camera like the first.
    """
    draws = np.random.default_rng(100 + device)
    mostly = np.isin(learned.labels, (np.arange(5) + device) % 10)
    weights = np.where(mostly, OWN_SHARE / mostly.sum(), (1 - OWN_SHARE) / (~mostly).sum())
    chosen = draws.choice(len(learned.labels), count, replace=False, p=weights)
    images = CAMERAS[device % len(CAMERAS)].see(learned.images[chosen], draws)
    return Pictures(images, learned.labels[chosen])


def joined(parts: list[Pictures]) -> Pictures:
    """All of them in one place."""
    return Pictures(
        np.concatenate([part.images for part in parts]),
        np.concatenate([part.labels for part in parts]),
    )


def kept_back_by(device: int, kept: Pictures) -> Pictures:
    """The pictures of the verdict, all digits alike, by the device's camera."""
    draws = np.random.default_rng(200 + device)
    return Pictures(CAMERAS[device].see(kept.images, draws), kept.labels)


def network() -> bytes:
    """x (N, 64) float32 → logits (N, 10): one hidden layer, weights after He et al. (2015)."""
    draws = np.random.default_rng(0)
    model = parser.parse_model(NETWORK)
    weights = model.graph.initializer
    for layer, (rows, columns) in enumerate(pairwise(SIZES)):
        matrix = draws.standard_normal((rows, columns)) * np.sqrt(2 / rows)
        weights.append(numpy_helper.from_array(matrix.astype(np.float32), f"layer{layer}.weight"))
        weights.append(numpy_helper.from_array(np.zeros(columns, np.float32), f"layer{layer}.bias"))
    onnx.checker.check_model(model, full_check=True)
    content: bytes = model.SerializeToString()
    return content


def accuracy(model: bytes, pictures: Pictures) -> float:
    """The share of pictures that an ONNX file reads rightly."""
    from onnxruntime import InferenceSession

    session = InferenceSession(model, providers=["CPUExecutionProvider"])
    logits = session.run(None, {session.get_inputs()[0].name: pictures.images})[0]
    return float((logits.argmax(axis=1) == pictures.labels).mean())
