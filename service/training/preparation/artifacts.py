"""Makes artifacts for training with Microsoft's runtimes from a forward ONNX graph."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from service.training.engines.ort_training import proof
from service.training.engines.ort_training.artifacts import OptimizerChoice, write
from service.training.preparation.step_models import build_models, read
from service.training.preparation.versions import describe
from service.training.protocol.messages.preparation import Prepare, Prepared
from service.training.tasks import TASKS


def make_artifacts(model_path: Path, task: Prepare) -> Prepared:
    """Check a forward model, and write artifacts, proved by two training steps.

    The model is not cut: they are for the whole model. Raises GraphRefused with every cause,
    EngineMissing. Runs native code on the upload: call it in a process that may crash.
    """
    forward = read(model_path, task)
    step, evaluation, _ = build_models(forward, task)
    artifacts = write(
        step,
        evaluation,
        values={tensor.name: tensor for tensor in forward.model.graph.initializer},
        frozen=forward.frozen,
        output=forward.output,
        optimizer=OptimizerChoice(task.optimizer, task.weight_decay, task.max_grad_norm),
        directory=Path(task.work_dir),
    )
    target = TASKS[task.loss].fed_target(forward.signature.target, forward.row)
    fed = replace(forward.signature, target=target)
    proof.prove(artifacts, fed, forward.trainable, check_gradients=False)
    return describe(model_path, forward, artifacts, exported=forward.inference)
