"""Carries out the order `Prepare`."""

from __future__ import annotations

from pathlib import Path

from service.training.errors import GraphRefused
from service.training.preparation.step_models import make_step_models
from service.training.protocol.messages import preparation


def prepare(order: preparation.Prepare) -> preparation.Prepared | preparation.Refused:
    """Make an upload ready to train, or say all that is wrong with it."""
    try:
        return _prepare(order)
    except GraphRefused as refused:
        return preparation.Refused(refused.detail, refused.problems)


def _prepare(order: preparation.Prepare) -> preparation.Prepared:
    if order.form == "forward" and order.engine == "sessions":
        return make_step_models(Path(order.source), order)
    return _for_ort_training(order)


def _for_ort_training(order: preparation.Prepare) -> preparation.Prepared:
    # Late: plain onnxruntime has no On-Device Training.
    from service.training.engines.ort_training import bundle
    from service.training.preparation.artifacts import make_artifacts, paths

    if order.form == "artifacts":
        return bundle.take(Path(order.source), paths(Path(order.work_dir)), order)
    return make_artifacts(
        Path(order.source),
        directory=Path(order.work_dir),
        loss=order.loss,
        optimizer=order.optimizer,
        output=order.output,
        trainable=order.trainable,
        classes=order.classes,
        weight_decay=order.weight_decay,
        max_grad_norm=order.max_grad_norm,
        divide=order.divide,
        feature_dtype=order.feature_dtype,
    )
