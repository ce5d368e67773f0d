"""From a forward ONNX graph to what the engine of sessions trains."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import onnx

from service.training.engines.compilation import compile_model
from service.training.engines.manifest import Files
from service.training.errors import refusal
from service.training.export.join import join
from service.training.forward import trial
from service.training.forward.load import load
from service.training.forward.reading import ForwardModel, read_forward
from service.training.forward.signature import specification_problems
from service.training.graph.losses import Loss
from service.training.graph.step import StepModel, build_evaluation, build_step
from service.training.optimizer.recipe import Recipe
from service.training.preparation.step_trial import rows_are_independent
from service.training.preparation.versions import describe, with_prefix
from service.training.protocol.messages.preparation import Prepare, Prepared
from service.training.protocol.messages.shared import Artifacts


def make_step_models(model_path: Path, order: Prepare) -> Prepared:
    """Check a forward model, and write its step, which has been run.

    Raises GraphRefused with every cause at once. Runs native code on the upload: call it in a
    process that may crash.
    """
    forward = read(model_path, order)
    inference = trial.inference_form(forward.model)
    files = _compile(forward, inference, order)
    artifacts = with_prefix(
        _artifacts(files), forward, Path(order.work_dir), feature_dtype=order.feature_dtype
    )
    exported = inference if forward.prefix is None else join(forward.prefix, inference)
    return describe(model_path, forward, artifacts, exported=exported)


def read(model_path: Path, order: Prepare) -> ForwardModel:
    """The forward model that the order is about. Raises GraphRefused with every cause at once."""
    problems = specification_problems(order.loss, order.optimizer)
    if problems:
        raise refusal(problems)
    return read_forward(
        load(model_path),
        loss=order.loss,
        output=order.output,
        patterns=order.trainable,
        classes=order.classes,
        divide=order.divide,
    )


def build_models(forward: ForwardModel, order: Prepare) -> tuple[StepModel, onnx.ModelProto]:
    """The step, which has been run, and the evaluation."""
    model, output, loss = forward.model, forward.output, Loss(order.loss)
    step = build_step(
        model,
        loss=loss,
        parameters=forward.trainable,
        output=output,
        batch_statistics=_normalizes_by_batch(model),
    )
    step = replace(step, batch_statistics=not rows_are_independent(step, forward))
    moved = (*step.parameters, *step.updated)
    return step, build_evaluation(model, loss=loss, parameters=moved, output=output)


def _compile(forward: ForwardModel, inference: onnx.ModelProto, order: Prepare) -> Files:
    step, evaluation = build_models(forward, order)
    return compile_model(
        step,
        evaluation,
        inference,
        output=forward.output,
        directory=Path(order.work_dir),
        recipe=_recipe(order),
    )


def _normalizes_by_batch(model: onnx.ModelProto) -> bool:
    """Was it exported with a BatchNormalization that trains?"""
    return any(
        node.op_type == "BatchNormalization" and trial.trains(node, model.graph)
        for node in model.graph.node
    )


def _recipe(order: Prepare) -> Recipe:
    assert order.optimizer in {"sgd", "adamw"}  # see specification_problems
    return Recipe(
        "sgd" if order.optimizer == "sgd" else "adamw",
        weight_decay=order.weight_decay,
        max_grad_norm=order.max_grad_norm,
    )


def _artifacts(files: Files) -> Artifacts:
    return Artifacts(
        training_model=str(files.step_model),
        eval_model=str(files.eval_model),
        checkpoint=str(files.checkpoint),
        manifest=str(files.manifest),
        inference_model=str(files.inference_model),
    )
