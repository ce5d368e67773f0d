"""A model of nine digits learns a tenth from a few pictures: what that costs the others.

The digits are the demo's, seen by its camera and judged on held-out ones. In the last rows the nine
are the base set, and only pictures of the tenth are new: the nine are replayed, left out, or left
out in ten epochs at a low rate; in the last row the job distills the previous version. Replayed,
they should lose at most 0.01.
"""

from __future__ import annotations

import time
from statistics import median
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from bench.daemon import Served, device_digits, digits_cnn, latest, predicted, served, train
from bench.table import Row
from cli.demo.digits import kept_back

NEW, PICTURES, SEEDS = 9, (5, 20), range(3)
MORE_SEEDS = range(10, 16)
"""Of the row that has an aim. The rule for `replay` was chosen on other digits, other draws and
other held-out pictures, in seeds 100 to 109."""
REPLAYED, GENTLE, DISTILLED = "replayed", "replay 0, gentle", "replay 0, gentle, distillation"
BASE_SETS = (REPLAYED, "replay 0", GENTLE, DISTILLED)
EPOCHS = (1, 5, None)
"""None: the job chooses."""
FIRST: dict[str, Any] = {}
"""What the job that learns the nine is asked for."""
GENTLY: dict[str, Any] = {"epochs": 10, "learning_rate": 1e-3}
SMALLEST = {
    "PICTURES": (5,),
    "SEEDS": (0,),
    "MORE_SEEDS": (10,),
    "BASE_SETS": (REPLAYED, DISTILLED),
    "EPOCHS": (1,),
    "FIRST": {"epochs": 1},
    "GENTLY": {"epochs": 1},
}


def run() -> list[Row]:
    """One row per number of pictures and of epochs; medians over the seeds."""
    with served() as daemon:
        rows = [_row(daemon, pictures, epochs) for pictures in PICTURES for epochs in EPOCHS]
        replays = [
            _row(daemon, PICTURES[-1], EPOCHS[-1], base_set=base_set) for base_set in BASE_SETS
        ]
        return [*rows, *replays]


def _row(daemon: Served, pictures: int, epochs: int | None, *, base_set: str = "-") -> Row:
    seeds = MORE_SEEDS if base_set == REPLAYED else SEEDS
    found = [_learned(daemon, pictures, epochs, seed, base_set) for seed in seeds]
    asked = {"pictures": str(pictures), "epochs": "chosen" if epochs is None else str(epochs)}
    told = asked | {"base set": base_set}
    return told | {what: median(figures[what] for figures in found) for what in found[0]}


def _learned(
    daemon: Served, pictures: int, epochs: int | None, seed: int, base_set: str
) -> dict[str, float]:
    name = f"digits-{pictures}-{epochs}-{seed}-{base_set.replace(', ', '-').replace(' ', '')}"
    classes, gate = [str(number) for number in range(NEW)], {"mode": "always"}
    daemon.register(name, _nine(), classes=classes, gate=gate)
    images, labels = device_digits()
    old = labels != NEW
    daemon.upload(name, image=images[old], label=labels[old])
    train(daemon, name, seed=seed, ignore_policy=True, **FIRST)
    before = _judged(daemon, name)
    if base_set != "-":
        first = {"first": int(old.sum())}
        daemon.http.post(f"/v1/models/{name}/base-set", json=first)
    began = time.monotonic()
    url = f"/v1/models/{name}/classes"
    daemon.http.post(url, json={"name": str(NEW)})
    seconds = time.monotonic() - began
    some = np.flatnonzero(~old)[:pictures]
    daemon.upload(name, "train", image=images[some], label=labels[some])
    asked: dict[str, Any] = {} if epochs is None else {"epochs": epochs}
    if base_set.startswith("replay 0"):
        asked["replay"] = 0.0
    if base_set in (GENTLE, DISTILLED):
        asked |= GENTLY
    if base_set == DISTILLED:
        asked["distillation"] = 0.3
    train(daemon, name, seed=seed, ignore_policy=True, **asked)
    after = _judged(daemon, name)
    return {
        "old before": before["old"],
        "old after": after["old"],
        "old lost": before["old"] - after["old"],
        "new after": after["new"],
        "s to add": seconds,
    }


def _nine() -> bytes:
    """The demo's model without its tenth row."""
    model = onnx.load_model_from_string(digits_cnn())
    last = model.graph.node[-1]
    for tensor in model.graph.initializer:
        if tensor.name in last.input:
            values: NDArray[Any] = onnx.numpy_helper.to_array(tensor)
            axis = values.shape.index(NEW + 1)
            kept = np.ascontiguousarray(values.take(range(NEW), axis=axis))
            tensor.CopyFrom(onnx.numpy_helper.from_array(kept, tensor.name))
    model.graph.output[0].type.tensor_type.shape.dim[1].dim_value = NEW
    return model.SerializeToString()


def _judged(daemon: Served, name: str) -> dict[str, float]:
    """Accuracies of `latest` on held-out pictures."""
    images, labels = kept_back()
    right, new = predicted(latest(daemon, name), image=images) == labels, labels == NEW
    return {"old": float(right[~new].mean()), "new": float(right[new].mean())}
