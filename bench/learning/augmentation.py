"""The effect of augmentation with few samples: errors on held-out digits, and its cost.

Twenty pictures per class of the demo's digits, different ones for each seed, train the demo's CNN
for 200 epochs with and without augmentation.
"""

from __future__ import annotations

import io
import json
from statistics import mean, median
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pillow

from bench.daemon import Served, device_digits, digits_cnn, latest, predicted, served, train
from bench.measuring import milliseconds
from bench.table import Row
from cli.demo.digits import kept_back
from service.preprocess.augmentation.draws import Draws
from service.preprocess.image import Image
from service.preprocess.standardize import Standardize
from storage.records.signatures import TensorSpec

Array = NDArray[Any]
SEEDS = range(4, 12)
"""Amounts and epochs were chosen with seeds 100 to 105, by errors on the device's pictures that
these had not drawn."""
A_CLASS = 20
RECIPE: dict[str, Any] = {
    "epochs": 200,
    "batch_size": 16,
    "learning_rate": 0.003,
    "schedule": "cosine",
}
AUGMENT: dict[str, Any] = {
    "crop": 0.13,
    "rotation": 15,
    "zoom": 0.15,
    "shear": 8,
    "noise": 0.1,
}
BATCH_SIZE, ROUNDS = 32, 15
COSTS = {
    "flip": {"flip": 0.5},
    "crop and flip": {"crop": 0.125, "flip": 0.5},
    "erasing": {"erasing": 0.5},
    "colour": {"brightness": 0.2, "contrast": 0.2, "saturation": 0.2},
    "resized crop": {"resized_crop": 0.6},
    "rotation": {"rotation": 15},
    "rotation, zoom and shear": {"rotation": 15, "zoom": 0.15, "shear": 8},
    "blur": {"blur": 1},
    "noise": {"noise": 0.1},
}
SMALLEST = {"SEEDS": (4,), "A_CLASS": 4, "RECIPE": {"epochs": 1}, "ROUNDS": 1}


def run() -> list[Row]:
    """Errors by seed, then milliseconds per batch."""
    with served() as daemon:
        rows = [_errors(daemon, seed) for seed in SEEDS]
    plain, changed = (mean(row[name] for row in rows) for name in ("error %", "augmented error %"))
    total = _row("mean", plain, changed) | {"aim": "≤ 0.8"}
    return [*rows, total, *_costs()]


def _row(name: str, plain: float, changed: float) -> Row:
    return {
        "digits": name,
        "error %": plain,
        "augmented error %": changed,
        "ratio": changed / plain,
    }


def _errors(daemon: Served, seed: int) -> Row:
    images, labels = device_digits()
    order = np.random.default_rng(seed).permutation(len(labels))
    some = np.concatenate([order[labels[order] == digit][:A_CLASS] for digit in range(10)])
    found = []
    for augment in (None, AUGMENT):
        name = f"digits-{seed}-{'augmented' if augment else 'plain'}"
        _prepare(daemon, name, augment, _pixels(images[some]), labels[some])
        train(daemon, name, ignore_policy=True, seed=seed, **RECIPE)
        inputs, truth = kept_back()
        tensors = (_pixels(inputs) / 255).astype(np.float32)[:, None]
        wrong = predicted(latest(daemon, name), image=tensors) != truth
        found.append(100 * float(wrong.mean()))
    return _row(f"seed {seed}", *found)


def _prepare(daemon: Served, name: str, augment: Any, pixels: Array, labels: Array) -> None:
    preprocess = {"kind": "image", "channels": "gray", "augment": augment}
    daemon.register(name, digits_cnn(), gate={"mode": "always"}, preprocess=preprocess)
    about = [{"label": int(label), "split": "train"} for label in labels]
    files = [("file", (f"{n}.png", _png(picture))) for n, picture in enumerate(pixels)]
    daemon.http.post(f"/v1/models/{name}/samples", files=files, data={"samples": json.dumps(about)})


def _pixels(images: Array) -> Array:
    """(n, 8, 8) uint8."""
    return np.asarray((images[:, 0] * 255).round().astype(np.uint8))


def _png(pixels: Array) -> bytes:
    buffer = io.BytesIO()
    Pillow.fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()


def _costs() -> list[Row]:
    """The costs of what follows decoding: augmentation, then normalization."""
    spec = TensorSpec("image", "float32", (3, 224, 224))
    pixels = np.random.default_rng(0).integers(0, 256, (BATCH_SIZE, *spec.shape), np.uint8)
    table = Standardize.parse(
        {"mean": [0], "std": [1], "augment": {"jitter": 0.1, "scaling": 0.1, "shift": 0.1}},
        TensorSpec("x", "float32", (128, 6)),
    )
    series = np.zeros((BATCH_SIZE, 128, 6), np.float32)
    draws, ids = Draws(0, 0), range(1, BATCH_SIZE + 1)

    def images(augment: Any) -> float:
        image = Image.parse({"augment": augment}, spec)
        normalize, tensor = image.normalizer(), np.empty(image.shape, np.float32)

        def batch() -> None:
            made = pixels
            if image.augment is not None:
                change = image.augment.apply
                made = np.stack(
                    [
                        change(picture, draws.of(number), channels_first=True)
                        for number, picture in enumerate(pixels)
                    ]
                )
            for picture in made:
                normalize(picture, tensor)

        return _milliseconds(batch)

    what = f"a batch of {BATCH_SIZE}, 224 x 224"
    rows: list[Row] = [{"cost of": what, "ms": images(None)}]
    rows += [{"cost of": f"{what}, {name}", "ms": images(change)} for name, change in COSTS.items()]
    changed = _milliseconds(lambda: table.augmented(table.apply(series), ids, draws, place=0))
    return [
        *rows,
        {
            "cost of": f"{BATCH_SIZE} series of 128 x 6",
            "ms": _milliseconds(lambda: table.apply(series)),
        },
        {"cost of": f"{BATCH_SIZE} series, jitter, scaling and shift", "ms": changed},
    ]


def _milliseconds(batch: Any) -> float:
    return median(milliseconds(batch, ROUNDS))
