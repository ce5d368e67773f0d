"""The offline phase: from a forward ONNX graph to what the engine trains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx

from service.training.conform import backward, verdict
from service.training.conform.conform import conform
from service.training.conform.losses import append_loss
from service.training.engines.ort_training import proof, runtime
from service.training.engines.ort_training.engine import OrtEngine
from service.training.errors import refusal, refuse
from service.training.export.export import assemble
from service.training.forward import trial
from service.training.forward.load import load
from service.training.forward.normalize import stamp
from service.training.forward.reading import ForwardModel
from service.training.forward.signature import specification_problems
from service.training.preparation.versions import describe, with_prefix
from service.training.protocol.messages.preparation import Prepared
from service.training.protocol.messages.shared import Artifacts

FILES = {
    "training_model": "training_model.onnx",
    "eval_model": "eval_model.onnx",
    "optimizer_model": "optimizer_model.onnx",
    "checkpoint": "checkpoint",
}
"""Role → file name, as Microsoft's tools write them."""
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
) -> Prepared:
    """Check a forward model, conform it, and write artifacts that are proven to train.

    trainable: initializer names or globs over them, `head` or `last:N`, None for every weight.
    divide: cut off what is frozen, if that pays or must be; the artifacts then take the outputs of
    the prefix model, which are kept as feature_dtype.
    Raises GraphRefused with every cause at once. Runs native code on the upload: call it in a
    process that may crash.
    """
    problems = specification_problems(loss, optimizer)
    if problems:
        raise refusal(problems)
    conformed = conform(
        load(model_path),
        loss=loss,
        output=output,
        patterns=trainable,
        classes=classes,
        divide=divide,
    )
    artifacts = _write(
        conformed,
        _Recipe(loss, optimizer, weight_decay, max_grad_norm),
        directory=directory,
        feature_dtype=feature_dtype,
    )
    proof.prove(artifacts, conformed.signature, conformed.trainable, below=conformed.prefix)
    exported = _exported(artifacts, conformed.output, directory)
    return describe(model_path, conformed, artifacts, exported=exported)


def _exported(artifacts: Artifacts, output: str, directory: Path) -> onnx.ModelProto:
    path = directory / "exported.onnx"
    checkpoint = Path(artifacts.checkpoint)
    OrtEngine(artifacts, checkpoint=checkpoint, output=output, threads=1).export(path)
    exported = assemble(path, artifacts)
    path.unlink()
    return exported


def paths(directory: Path) -> Artifacts:
    """Where the artifacts of a folder lie."""
    return Artifacts(**{role: str(directory / name) for role, name in FILES.items()})


@dataclass(frozen=True, slots=True)
class _Recipe:
    loss: str
    optimizer: str
    weight_decay: float
    max_grad_norm: float | None


def _write(
    conformed: ForwardModel, recipe: _Recipe, *, directory: Path, feature_dtype: str
) -> Artifacts:
    """The engine's files, and the prefix model where the graph was cut."""
    directory.mkdir(parents=True, exist_ok=True)
    _generate(conformed, recipe, directory)
    artifacts = paths(directory)
    return with_prefix(artifacts, conformed, directory, feature_dtype=feature_dtype)


def _generate(conformed: ForwardModel, recipe: _Recipe, directory: Path) -> None:
    tools = runtime.training_artifacts()
    model = append_loss(conformed.model, conformed.output, recipe.loss, conformed.signature.target)
    try:
        with runtime.quiet():
            tools.generate_artifacts(
                model,
                requires_grad=list(conformed.trainable),
                frozen_params=list(conformed.frozen),
                optimizer=_optimizer(tools.onnxblock, recipe),
                artifact_directory=directory,
            )
    except trial.engine_errors() as error:
        detail = verdict.engine_failure(conformed.model, trial.sentence(error))
        raise refuse("/model/graph", detail) from None
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
