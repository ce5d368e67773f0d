"""Carries out the task `Prepare`."""

from __future__ import annotations

from pathlib import Path

from service.training.errors import EngineMissing, GraphRefused
from service.training.preparation.step_models import make_step_models
from service.training.protocol.messages import preparation
from storage.disk.durable import fault_behind
from storage.errors import Problem


def prepare(task: preparation.Prepare) -> preparation.Prepared | preparation.Refused:
    """Make an upload ready to train, or report everything that is wrong with it."""
    try:
        return _prepare(task)
    except GraphRefused as refused:
        if fault := fault_behind(refused, "the model cannot be checked"):
            raise fault from refused
        return preparation.Refused(refused.detail, refused.problems)
    except EngineMissing as missing:
        place = "/artifacts" if task.form == "artifacts" else "/engine"
        return preparation.Refused(missing.detail, (Problem(place, missing.detail),))


def _prepare(task: preparation.Prepare) -> preparation.Prepared:
    if task.form == "forward" and task.engine == "sessions":
        return make_step_models(Path(task.source), task)
    return _for_ort_training(task)


def _for_ort_training(task: preparation.Prepare) -> preparation.Prepared:
    # Late: plain onnxruntime has no On-Device Training.
    if task.form == "artifacts":
        from service.training.engines.ort_training import artifacts, bundle

        return bundle.take(Path(task.source), artifacts.paths(Path(task.work_dir)), task)
    from service.training.preparation.artifacts import make_artifacts

    return make_artifacts(Path(task.source), task)
