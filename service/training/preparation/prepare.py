"""Carries out the task `Prepare`."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from service.training.errors import EngineMissing, GraphRefused
from service.training.preparation.step_models import build_models, make_step_models, read
from service.training.preparation.versions import describe
from service.training.protocol.messages.preparation import Prepare, Prepared, Refused
from service.training.tasks import TASKS
from storage.disk.durable import fault_behind
from storage.errors import Problem


def prepare(task: Prepare) -> Prepared | Refused:
    """Make an upload ready to train, or report everything that is wrong with it."""
    try:
        if task.form == "artifacts":
            return _take_artifacts(task)
        make = make_step_models if task.engine == "sessions" else make_artifacts
        return make(Path(task.source), task)
    except GraphRefused as refused:
        if fault := fault_behind(refused, "the model cannot be checked"):
            raise fault from refused
        return Refused(refused.detail, refused.problems)
    except EngineMissing as missing:
        place = "/artifacts" if task.form == "artifacts" else "/engine"
        return Refused(missing.detail, (Problem(place, missing.detail),))


def _take_artifacts(task: Prepare) -> Prepared:
    # Late: plain onnxruntime has no On-Device Training.
    from service.training.engines.ort_training import artifacts, bundle

    return bundle.take(Path(task.source), artifacts.paths(Path(task.work_dir)), task)


def make_artifacts(model_path: Path, task: Prepare) -> Prepared:
    """Check a forward model, and write artifacts for training with Microsoft's runtimes, proved by
    two training steps.

    The model is not cut: they are for the whole model. Raises GraphRefused with every cause,
    EngineMissing. Runs native code on the upload: call it in a process that may crash.
    """
    # Late: plain onnxruntime has no On-Device Training.
    from service.training.engines.ort_training import proof
    from service.training.engines.ort_training.artifacts import write

    forward = read(model_path, task)
    step, evaluation, _ = build_models(forward, task)
    artifacts = write(
        step,
        evaluation,
        values={tensor.name: tensor for tensor in forward.model.graph.initializer},
        frozen=forward.frozen,
        output=forward.output,
        task=task,
    )
    target = TASKS[task.loss].fed_target(forward.signature.target, forward.row)
    fed = replace(forward.signature, target=target)
    proof.prove(artifacts, fed, forward.trainable, check_gradients=False)
    return describe(model_path, forward, artifacts, exported=forward.inference)
