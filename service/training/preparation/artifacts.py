"""The offline phase: from a forward ONNX graph to what the engine trains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import onnx

from service.training.conform import backward, proof, trial, verdict
from service.training.conform.conform import Conformed, conform
from service.training.conform.errors import refusal, refuse
from service.training.conform.load import load
from service.training.conform.losses import append_loss
from service.training.conform.normalize import normalize, stamp
from service.training.conform.signature import specification_problems
from service.training.export import remainder
from service.training.export.export import assemble
from service.training.ort import runtime
from service.training.ort.engine import OrtEngine
from service.training.protocol.messages.preparation import Prepared
from service.training.protocol.messages.shared import FEATURE_DTYPE, Artifacts

FILES = {
    "training_model": "training_model.onnx",
    "eval_model": "eval_model.onnx",
    "optimizer_model": "optimizer_model.onnx",
    "checkpoint": "checkpoint",
}
"""Role → file name, as Microsoft's tools write them."""
PREFIX_MODEL = "prefix_model.onnx"
"""Ours alone: the frozen part, where a model was cut."""
REMAINDER_MODEL = "remainder_model.onnx"
"""Ours alone: a fragment with the outputs that do not train."""
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
    whole = _as_it_infers(model_path, conformed.output)
    artifacts, notes = _with_other_outputs(artifacts, conformed, whole, directory)
    base, base_notes = _base_model(model_path, whole, directory, output=conformed.output)
    return Prepared(
        artifacts=artifacts,
        base_model=str(base),
        signature=conformed.signature,
        output=conformed.output,
        trainable=conformed.trainable,
        trainable_parameters=conformed.trainable_parameters,
        frozen_parameters=conformed.frozen_parameters,
        notes=(*conformed.notes, *notes, *base_notes),
        parameters=conformed.parameters,
        cut=conformed.cut,
    )


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
    conformed: Conformed, recipe: _Recipe, *, directory: Path, feature_dtype: str
) -> Artifacts:
    """The engine's files, and the prefix model where the graph was cut."""
    directory.mkdir(parents=True, exist_ok=True)
    _generate(conformed, recipe, directory)
    artifacts = paths(directory)
    if conformed.prefix is None:
        return artifacts
    onnx.helper.set_model_props(conformed.prefix, {FEATURE_DTYPE: feature_dtype})
    onnx.save_model(conformed.prefix, directory / PREFIX_MODEL)
    return replace(artifacts, prefix_model=str(directory / PREFIX_MODEL))


def _generate(conformed: Conformed, recipe: _Recipe, directory: Path) -> None:
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


def _as_it_infers(path: Path, output: str) -> onnx.ModelProto:
    """The upload, and where it has other outputs its normal form, which opens functions."""
    uploaded = load(path)
    if [value.name for value in uploaded.graph.output] == [output]:
        return uploaded
    return trial.inference_form(normalize(uploaded, []).model)


def _with_other_outputs(
    artifacts: Artifacts, conformed: Conformed, whole: onnx.ModelProto, directory: Path
) -> tuple[Artifacts, list[str]]:
    """With a remainder model, if the model as it infers has outputs beside the one that trains."""
    output = conformed.output
    if {value.name for value in whole.graph.output} <= {output}:
        return artifacts, []
    path = directory / "exported.onnx"
    OrtEngine(artifacts, checkpoint=Path(artifacts.checkpoint), output=output, threads=1).export(
        path
    )
    exported = assemble(path, artifacts)
    path.unlink()
    fragment, lost = remainder.make(whole, exported, output=output, trainable=conformed.trainable)
    notes = []
    if lost:
        notes.append(
            f"versions after the first do not have the outputs {', '.join(lost)}: they hang on "
            "inputs or weights that training drops or rewrites"
        )
    if fragment is None:
        return artifacts, notes
    onnx.save_model(fragment, directory / REMAINDER_MODEL)
    return replace(artifacts, remainder_model=str(directory / REMAINDER_MODEL)), notes


def _base_model(
    path: Path, whole: onnx.ModelProto, directory: Path, *, output: str
) -> tuple[Path, list[str]]:
    """Version 1: the uploaded bytes, if apps and Hone can run them as they are.

    Else its inference form, if it would train as it infers, or with the inner tensor that trains as
    an output more, as all later versions have it.
    """
    base, notes = directory / BASE_MODEL, []
    made = uploaded = load(path)
    if any(trial.trains(node, uploaded.graph) for node in uploaded.graph.node):
        made = trial.inference_form(uploaded)
        notes.append(
            "version 1 is the uploaded model with Dropout and BatchNormalization switched off"
        )
    if output not in {value.name for value in uploaded.graph.output}:
        made = _with_output(made, whole, output)
        notes.append(f'every version has one output more, "{output}", which trains')
    base.write_bytes(made.SerializeToString() if notes else path.read_bytes())
    return base, notes


def _with_output(model: onnx.ModelProto, whole: onnx.ModelProto, output: str) -> onnx.ModelProto:
    """A copy that gives an inner tensor too: of `whole` where a function of the model hides it."""
    shows = any(output in node.output for node in model.graph.node)
    copy = onnx.ModelProto()
    copy.CopyFrom(model if shows else whole)
    inner = onnx.helper.make_tensor_value_info(output, onnx.TensorProto.FLOAT, None)
    copy.graph.output.append(inner)
    return copy
