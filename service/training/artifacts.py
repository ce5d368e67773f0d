"""The offline phase: from a forward ONNX graph to what the engine trains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import onnx

from service.training import messages, ort_runtime
from service.training.conform import Conformed, backward, conform, proof, trial
from service.training.conform.errors import refusal, refuse
from service.training.conform.load import load
from service.training.conform.losses import append_loss
from service.training.conform.normalize import stamp
from service.training.conform.signature import specification_problems

FILES = {
    "training_model": "training_model.onnx",
    "eval_model": "eval_model.onnx",
    "optimizer_model": "optimizer_model.onnx",
    "checkpoint": "checkpoint",
}
"""Role → file name, as Microsoft's tools write them."""
PREFIX_MODEL = "prefix_model.onnx"
"""Ours alone: the frozen part, where a model was cut."""
BASE_MODEL = "base_model.onnx"
ADAMW_EPSILON = 1e-8
"""PyTorch's default; the engine's own is 1e-6."""
ADAM_MODE_TORCH = 0
"""The engine's AdamW as in PyTorch; its default, 1, is that of Hugging Face."""


def make_artifacts(
    model_path: Path,
    *,
    directory: Path,
    loss: str,
    optimizer: str = "adamw",
    output: str | None = None,
    trainable: Sequence[str] | None = None,
    classes: tuple[str, ...] | None = None,
    weight_decay: float = 0.0,
    max_grad_norm: float | None = None,
    divide: bool = False,
    feature_dtype: str = "float32",
) -> messages.Prepared:
    """Check a forward model, conform it, and write artifacts that are proven to train.

    trainable: globs over initializer names, `head` or `last:N`, None for every weight. divide: cut
    off what is frozen, if that pays; the artifacts then take the outputs of the prefix model, which
    are kept as feature_dtype.
    Raises GraphRefused with every cause at once. Runs native code on the upload: call it in a
    process that may crash.
    """
    problems = specification_problems(loss, optimizer)
    if problems:
        raise refusal(problems)
    uploaded = load(model_path)
    conformed = conform(
        uploaded, loss=loss, output=output, patterns=trainable, classes=classes, divide=divide
    )
    directory.mkdir(parents=True, exist_ok=True)
    recipe = _Recipe(loss, optimizer, weight_decay, max_grad_norm)
    _generate(conformed, recipe, directory)
    artifacts = paths(directory)
    if conformed.prefix is not None:
        artifacts = replace(artifacts, prefix_model=str(directory / PREFIX_MODEL))
        onnx.helper.set_model_props(conformed.prefix, {messages.FEATURE_DTYPE: feature_dtype})
        onnx.save_model(conformed.prefix, directory / PREFIX_MODEL)
    proof.prove(artifacts, conformed.signature, conformed.trainable, below=conformed.prefix)
    base, notes = _base_model(model_path, uploaded, directory)
    return messages.Prepared(
        artifacts=artifacts,
        base_model=str(base),
        signature=conformed.signature,
        output=conformed.output,
        trainable=conformed.trainable,
        trainable_parameters=conformed.trainable_parameters,
        frozen_parameters=conformed.frozen_parameters,
        notes=(*conformed.notes, *notes),
        parameters=conformed.parameters,
        cut=conformed.cut,
    )


def paths(directory: Path) -> messages.Artifacts:
    """Where the artifacts of a folder lie."""
    return messages.Artifacts(**{role: str(directory / name) for role, name in FILES.items()})


@dataclass(frozen=True, slots=True)
class _Recipe:
    loss: str
    optimizer: str
    weight_decay: float
    max_grad_norm: float | None


def _generate(conformed: Conformed, recipe: _Recipe, directory: Path) -> None:
    tools = ort_runtime.training_artifacts()
    model = append_loss(conformed.model, conformed.output, recipe.loss, conformed.signature.target)
    try:
        with ort_runtime.quiet():
            tools.generate_artifacts(
                model,
                requires_grad=list(conformed.trainable),
                frozen_params=list(conformed.frozen),
                optimizer=_optimizer(tools.onnxblock, recipe),
                artifact_directory=directory,
            )
    except trial.engine_errors() as error:
        raise refuse(
            "/model/graph", f"the engine cannot build a gradient: {trial.sentence(error)}"
        ) from None
    for role in ("training_model", "eval_model", "optimizer_model"):
        _stamp_file(directory / FILES[role])


def _optimizer(onnxblock: Any, recipe: _Recipe) -> Any:
    norm = recipe.max_grad_norm
    clip = None if norm is None else onnxblock.optim.ClipGradNorm(norm)
    if recipe.optimizer == "sgd":
        return onnxblock.optim.SGD(clip_grad=clip)
    return onnxblock.optim.AdamW(
        eps=ADAMW_EPSILON, weight_decay=recipe.weight_decay, clip_grad=clip
    )


def _stamp_file(path: Path) -> None:
    model = onnx.load_model(path, load_external_data=False)
    stamp(model)
    backward.mend(model)
    for node in model.graph.node:
        for attribute in node.attribute:
            if node.op_type == "AdamWOptimizer" and attribute.name == "adam_mode":
                attribute.i = ADAM_MODE_TORCH
    onnx.save_model(model, path)


def _base_model(path: Path, uploaded: onnx.ModelProto, directory: Path) -> tuple[Path, list[str]]:
    """Version 1: the uploaded bytes, or their inference form if these would train as they infer."""
    base = directory / BASE_MODEL
    if not any(trial.trains(node, uploaded.graph) for node in uploaded.graph.node):
        base.write_bytes(path.read_bytes())
        return base, []
    base.write_bytes(trial.inference_form(uploaded).SerializeToString())
    return base, [
        "version 1 is the uploaded model with Dropout and BatchNormalization switched off"
    ]
