"""What a job without a base set forgets, and what holds it back: accuracy on the camera and before.

The demo's classifier, pretrained on clean digits, learns from a camera: the demo's, which mirrors,
and one that turns pictures by a quarter. `averaged` is a tenth of the weights of version 1 and nine
of the job's; Wortsman et al. (2022), Robust fine-tuning of zero-shot models. `base set` replays the
400 digits of the pretraining.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from statistics import mean
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

from bench.daemon import Samples, Served, add_base_set, digits_cnn, latest, predicted, served, train
from bench.table import Row
from cli.demo.digits import folder

Array = NDArray[Any]
SEEDS = range(10)
ASKED: dict[str, dict[str, Any]] = {
    "defaults": {},
    "l2_sp 0.02": {"l2_sp": 0.02},
    "l2_sp 0.03": {"l2_sp": 0.03},
    "l2_sp 0.1": {"l2_sp": 0.1},
    "distillation 0.03": {"distillation": 0.03},
    "distillation 0.1": {"distillation": 0.1},
}
OWN = 0.9
"""Share of the job's weights in the average."""
SMALLEST = {
    "SEEDS": (0,),
    "ASKED": {"defaults": {"epochs": 1}},
}


def run() -> list[Row]:
    """Accuracies on held-out digits, means over the seeds, by camera and way."""
    sys.path.insert(0, str(folder()))
    import camera
    import dataset

    pretraining, device, kept_back = dataset.split()
    with served() as daemon:
        return [
            row
            for name, see in {"mirrors": camera.see, "turns": _turned(camera.see)}.items()
            for row in _rows(daemon, name, partial(_pictures, see), pretraining, device, kept_back)
        ]


def _turned(see: Callable[..., Array]) -> Callable[..., Array]:
    """A camera that turns by a quarter where the demo's mirrors."""
    return lambda images, rng: see(np.rot90(images[..., ::-1], axes=(2, 3)), rng)


def _pictures(see: Callable[..., Array], images: Array, seed: int) -> Array:
    return see(images, np.random.default_rng(seed))


def _rows(
    daemon: Served,
    name: str,
    see: Callable[[Array, int], Array],
    pretraining: Any,
    device: Any,
    kept_back: Any,
) -> Iterator[Row]:
    judges = {
        "camera": (see(kept_back.images, 1_000), kept_back.labels),
        "clean": (kept_back.images, kept_back.labels),
    }
    found: dict[str, list[dict[str, float]]] = {"version 1": [_accuracies(digits_cnn(), judges)]}
    for seed in SEEDS:
        model = f"{name}-{seed}"
        daemon.register(model, digits_cnn(), loss="cross_entropy", gate={"mode": "always"})
        daemon.upload(model, image=see(device.images, seed), label=device.labels)
        for way, asked in ASKED.items():
            trained = _trained(daemon, model, seed=seed, **asked)
            found.setdefault(way, []).append(_accuracies(trained, judges))
            if way == "defaults":
                averaged = _averaged(digits_cnn(), trained)
                found.setdefault("averaged", []).append(_accuracies(averaged, judges))
        add_base_set(daemon, model, image=pretraining.images, label=pretraining.labels)
        replayed = _trained(daemon, model, seed=seed, **ASKED["defaults"])
        found.setdefault("base set", []).append(_accuracies(replayed, judges))
    for way, accuracies in found.items():
        means = {judge: 100 * mean(accuracy[judge] for accuracy in accuracies) for judge in judges}
        yield {"camera that": name, "way": way, **means}


def _trained(daemon: Served, model: str, **asked: Any) -> bytes:
    train(daemon, model, ignore_policy=True, **{"from": "base"}, **asked)
    return latest(daemon, model)


def _averaged(first: bytes, trained: bytes) -> bytes:
    before, after = onnx.load_from_string(first), onnx.load_from_string(trained)
    weights = {part.name: numpy_helper.to_array(part) for part in before.graph.initializer}
    for tensor in after.graph.initializer:
        if tensor.name in weights:
            mixed = OWN * numpy_helper.to_array(tensor) + (1 - OWN) * weights[tensor.name]
            tensor.CopyFrom(numpy_helper.from_array(mixed.astype(np.float32), tensor.name))
    content: bytes = after.SerializeToString()
    return content


def _accuracies(model: bytes, judges: dict[str, Samples]) -> dict[str, float]:
    return {
        name: float((predicted(model, image=images) == labels).mean())
        for name, (images, labels) in judges.items()
    }
