"""Temperature scaling: divides logits by a number, so that confidence matches accuracy.

Source: Guo, Pleiss, Sun, Weinberger (2017), On Calibration of Modern Neural Networks, ICML, 4.2.
The number is the one that maximizes the likelihood of validation samples. Predicted classes do not
change.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from service.training.data.batches import Batches, Indices
from service.training.engine import Engine
from service.training.evaluation.metrics import Calibration
from service.training.evaluation.validation import outputs_of
from service.training.heads.output_engine import with_output
from service.training.heads.prototypes import likeliest_scale
from service.training.tasks.cross_entropy import cross_entropy

FEWEST = 30
"""Minimum number of validation samples for the fit."""
NAME = "hone.inverse_temperature"


class Calibrated(Struct, frozen=True):
    """engine: with the scaled output. metrics: validation metrics that it changes. warnings: why
    calibration was skipped, for people.
    """

    engine: Engine
    metrics: dict[str, Any]
    warnings: tuple[str, ...] = ()


def calibrate(engine: Engine, validation: Batches, *, tick: Callable[[], None]) -> Calibrated:
    """Calibrate the engine; with too few samples or nothing to gain, return it unchanged, and why.

    tick runs between batches.
    """
    if len(validation) < FEWEST:
        why = f"not calibrated: fewer than {FEWEST} validation samples, {len(validation)}"
        return Calibrated(engine, {}, (why,))
    logits = outputs_of(engine, validation, np.arange(len(validation)), tick=tick)
    labels = validation.labels
    halves = np.arange(len(labels)) % 2
    unseen = [
        _loss(
            logits[halves == half] * _scale(logits[halves != half], labels[halves != half]),
            labels[halves == half],
        )
        for half in (0, 1)
    ]
    before, scale = _loss(logits, labels), _scale(logits, labels)
    after = _loss(logits * scale, labels)
    if not (np.mean(unseen) < before and after < before):
        why = "not calibrated: no temperature made samples likelier than it was fitted on others"
        return Calibrated(engine, {}, (why,))
    errors = [_error(scaled, labels) for scaled in (logits, logits * scale)]
    told = {
        "temperature": float(1 / scale),
        "loss_before": before,
        "calibration_error_before": errors[0],
    }
    ended = with_output(
        engine,
        lambda inputs, target: np.multiply(engine.evaluate(inputs, target)[1], scale),
        lambda path, output: _attach(path, output, scale),
    )
    return Calibrated(ended, {"loss": after, "calibration_error": errors[1], "calibration": told})


def _scale(logits: NDArray[Any], labels: Indices) -> NDArray[np.float32]:
    away = (logits.max(axis=1, keepdims=True) - logits).astype(np.float64)
    return np.array(likeliest_scale(away, labels, np.ones(len(labels))), np.float32)


def _loss(logits: NDArray[Any], labels: Indices) -> float:
    return float(cross_entropy(logits, labels).mean())


def _error(logits: NDArray[Any], labels: Indices) -> float | None:
    calibration = Calibration()
    calibration.update(logits, logits.argmax(axis=1) == labels)
    return calibration.error()


def _attach(path: Path, output: str, scale: NDArray[np.float32]) -> None:
    # Late: most jobs do not ask for it, and onnx takes long to import.
    import onnx

    from service.training.export.join import BEFORE, replace_output

    replace_output(
        path,
        output,
        lambda name: [onnx.helper.make_node("Mul", [name + BEFORE, NAME], [name], NAME)],
        {NAME: scale},
    )
