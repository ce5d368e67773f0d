"""From a forward ONNX graph to artifacts that Microsoft's runtimes train with."""

from __future__ import annotations

from pathlib import Path

from service.training.engines.ort_training import proof
from service.training.engines.ort_training.artifacts import OptimizerChoice, write
from service.training.preparation.step_models import build_models, read
from service.training.preparation.versions import describe
from service.training.protocol.messages.preparation import Prepare, Prepared


def make_artifacts(model_path: Path, task: Prepare) -> Prepared:
    """Check a forward model, and write artifacts that have been trained with for two steps.

    They are of the whole model: it is not cut. Raises GraphRefused with every cause at once,
    EngineMissing. Runs native code on the upload: call it in a process that may crash.
    """
    forward = read(model_path, task)
    step, evaluation = build_models(forward, task)
    artifacts = write(
        step,
        evaluation,
        values={each.name: each for each in forward.model.graph.initializer},
        frozen=forward.frozen,
        output=forward.output,
        optimizer=OptimizerChoice(task.optimizer, task.weight_decay, task.max_grad_norm),
        directory=Path(task.work_dir),
    )
    proof.prove(artifacts, forward.signature, forward.trainable, check_gradients=False)
    return describe(model_path, forward, artifacts, exported=forward.inference)
