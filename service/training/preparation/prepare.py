"""Carries out the order `Prepare`."""

from __future__ import annotations

from pathlib import Path

from service.training.errors import EngineMissing, GraphRefused
from service.training.preparation.step_models import make_step_models
from service.training.protocol.messages import preparation
from storage.errors import Problem


def prepare(order: preparation.Prepare) -> preparation.Prepared | preparation.Refused:
    """Make an upload ready to train, or say all that is wrong with it."""
    try:
        return _prepare(order)
    except GraphRefused as refused:
        return preparation.Refused(refused.detail, refused.problems)
    except EngineMissing as missing:
        place = "/artifacts" if order.form == "artifacts" else "/engine"
        return preparation.Refused(missing.detail, (Problem(place, missing.detail),))


def _prepare(order: preparation.Prepare) -> preparation.Prepared:
    if order.form == "forward" and order.engine == "sessions":
        return make_step_models(Path(order.source), order)
    return _for_ort_training(order)


def _for_ort_training(order: preparation.Prepare) -> preparation.Prepared:
    # Late: plain onnxruntime has no On-Device Training.
    if order.form == "artifacts":
        from service.training.engines.ort_training import artifacts, bundle

        return bundle.take(Path(order.source), artifacts.paths(Path(order.work_dir)), order)
    from service.training.preparation.artifacts import make_artifacts

    return make_artifacts(Path(order.source), order)
