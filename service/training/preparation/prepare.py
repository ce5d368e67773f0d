"""Carries out the task `Prepare`."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from service.training.errors import EngineMissing, GraphRefused, refusal
from service.training.forward.load import parse
from service.training.preparation.step_models import build_models, make_step_models, read
from service.training.preparation.versions import describe
from service.training.protocol.messages.preparation import Prepare, Prepared, Refused
from service.training.tasks import TASKS
from storage.disk.durable import fault_behind
from storage.errors import Problem


def prepare(task: Prepare) -> Prepared | Refused:
    """Make an upload ready to train, or report everything that is wrong with it."""
    notes: list[str] = []
    try:
        if task.form == "artifacts":
            return _take_artifacts(task)
        task = fix_open_axes(task, notes)
        make = make_step_models if task.engine == "sessions" else make_artifacts
        prepared = make(Path(task.source), task)
        return replace(prepared, notes=(*notes, *prepared.notes))
    except GraphRefused as refused:
        if fault := fault_behind(refused, "the model cannot be checked"):
            raise fault from refused
        if notes and any(problem.pointer == "/model" for problem in refused.problems):
            sizes = Problem("/spec/preprocess", f"{notes[0]}; and so the model does not run")
            refused = refusal([sizes, *refused.problems])
        return Refused(refused.detail, refused.problems)
    except EngineMissing as missing:
        place = "/artifacts" if task.form == "artifacts" else "/engine"
        return Refused(missing.detail, (Problem(place, missing.detail),))


def fix_open_axes(task: Prepare, notes: list[str]) -> Prepare:
    """The task with a copy of its upload whose open axes have its sizes. Raises GraphRefused."""
    if not task.sizes:
        return task
    model, fixed = parse(Path(task.source)), list[str]()
    stored = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in stored]
    only = next(iter(task.sizes.values())) if len(inputs) == len(task.sizes) == 1 else ()
    for value in inputs:
        axes, sizes = value.type.tensor_type.shape.dim[1:], task.sizes.get(value.name, only)
        for axis, (dim, size) in enumerate(zip(axes, sizes, strict=False), 1):
            if size is not None and not dim.HasField("dim_value"):
                dim.dim_value = size
                fixed.append(f'axis {axis} of input "{value.name}" is {size}')
    if not fixed:
        return task
    notes.append(f"as preprocess says, {', '.join(fixed)}")
    path = Path(task.work_dir) / "fixed.onnx"
    path.write_bytes(model.SerializeToString())
    return replace(task, source=str(path))


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
