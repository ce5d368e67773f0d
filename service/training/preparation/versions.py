"""Makes what a model needs besides its training graphs: version 1, frozen part, other outputs."""

from __future__ import annotations

import shutil
from copy import deepcopy
from pathlib import Path

import onnx
from msgspec.structs import replace

from service.training.engines.runtime import LOAD_ERRORS, open_session
from service.training.export import remainder
from service.training.forward import own_loss, trial
from service.training.forward.load import load_again
from service.training.forward.normalize import NEWEST, normalize
from service.training.forward.reading import ForwardModel
from service.training.graph.passes.caches import NOTE, has_dropped
from service.training.graph.passes.canonical import IR_VERSION, opset
from service.training.protocol.messages.preparation import Prepared
from service.training.protocol.messages.shared import Artifacts

REMAINDER_MODEL = "remainder_model.onnx"
"""A fragment with the outputs that do not train."""
BASE_MODEL = "base_model.onnx"


def describe(
    model_path: Path, forward: ForwardModel, artifacts: Artifacts, *, exported: onnx.ModelProto
) -> Prepared:
    """The answer to the task, with version 1 written next to the artifacts.

    exported: the model that training would export, with the uploaded weights.
    """
    directory = Path(artifacts.training_model).parent
    uploaded, own_notes = _uploaded(model_path, forward)
    whole = _as_it_infers(uploaded, forward.output)
    artifacts, notes = _with_other_outputs(
        artifacts, forward, whole=whole, exported=exported, directory=directory
    )
    model, base_notes = _base_model(uploaded, whole, output=forward.output)
    base, as_it_came = directory / BASE_MODEL, not (own_notes or base_notes)
    if as_it_came:
        shutil.copyfile(model_path, base)
    else:
        base.write_bytes(model.SerializeToString())
    if (model.ir_version > IR_VERSION or opset(model) > NEWEST) and not _opens(base):
        written, model = _format_of(model), normalize(model, []).model
        base.write_bytes(model.SerializeToString())
        told = f"version 1 has {_format_of(model)}: ONNX Runtime here does not run {written}"
        base_notes.append(told)
    return Prepared(
        artifacts=artifacts,
        base_model=str(base),
        signature=forward.signature,
        output=forward.output,
        trainable=forward.trainable,
        trainable_parameters=forward.trainable_parameters,
        frozen_parameters=forward.frozen_parameters,
        notes=(*forward.notes, *notes, *own_notes, *base_notes),
        parameters=forward.parameters,
        cut=forward.cut,
    )


def _format_of(model: onnx.ModelProto) -> str:
    return f"opset {opset(model)} and IR version {model.ir_version}"


def _opens(model: Path) -> bool:
    try:
        open_session(model, threads=1, arena=False)
    except LOAD_ERRORS:
        return False
    return True


def _uploaded(path: Path, forward: ForwardModel) -> tuple[onnx.ModelProto, list[str]]:
    """The upload, without the loss that it computes itself."""
    uploaded, loss = load_again(path), forward.loss_output
    if loss is None:
        return uploaded, []
    target = forward.signature.target.name
    if not any(forward.output in node.output for node in uploaded.graph.node):
        uploaded = normalize(uploaded, []).model  # a function of the model hides it
    own_loss.read_labels(uploaded.graph, forward.output, forward.signature.target.classes or ())
    kept = own_loss.as_apps_get_it(uploaded, loss, target, output=forward.output)
    lost = {value.name for value in uploaded.graph.output} - {v.name for v in kept.graph.output}
    lacks = [f'the output "{name}"' for name in sorted(lost)]
    lacks += [f'the input "{target}", which is the label'] if target else []
    return kept, [f"versions do not have {' and '.join(lacks)}"] if lacks else []


def _as_it_infers(uploaded: onnx.ModelProto, output: str) -> onnx.ModelProto:
    """The upload; if it has other outputs, its inference form with functions inlined."""
    if [value.name for value in uploaded.graph.output] == [output]:
        return uploaded
    return trial.inference_form(normalize(uploaded, []).model)


def _with_other_outputs(
    artifacts: Artifacts,
    forward: ForwardModel,
    *,
    whole: onnx.ModelProto,
    exported: onnx.ModelProto,
    directory: Path,
) -> tuple[Artifacts, list[str]]:
    """With a remainder model, if the inference model has outputs besides the trained one."""
    output = forward.output
    if {value.name for value in whole.graph.output} <= {output}:
        return artifacts, []
    fragment, lost = remainder.make(whole, exported, output=output, trainable=forward.trainable)
    notes = []
    if lost:
        notes.append(
            f"versions after the first do not have the outputs {', '.join(lost)}: they are no "
            "tensors, or hang on inputs or weights that training drops or rewrites"
        )
    if fragment is None:
        return artifacts, notes
    onnx.save_model(fragment, directory / REMAINDER_MODEL)
    return replace(artifacts, remainder_model=str(directory / REMAINDER_MODEL)), notes


def _base_model(
    uploaded: onnx.ModelProto, whole: onnx.ModelProto, *, output: str
) -> tuple[onnx.ModelProto, list[str]]:
    """Version 1: the upload, if apps and Hone can run it unchanged, whatever its opset.

    Else its inference form, if the upload would train during inference, or a copy with the trained
    inner tensor as an extra output, like all later versions.
    """
    model, notes = uploaded, [NOTE] if has_dropped(uploaded) else []
    if any(trial.trains(node, uploaded.graph) for node in uploaded.graph.node):
        model = trial.inference_form(uploaded)
        notes.append(
            "version 1 is the uploaded model with Dropout and BatchNormalization switched off"
        )
    if output not in {value.name for value in uploaded.graph.output}:
        model = _with_output(model, whole, output)
        notes.append(f'every version has one output more, "{output}", which trains')
    return model, notes


def _with_output(model: onnx.ModelProto, whole: onnx.ModelProto, output: str) -> onnx.ModelProto:
    """A copy that also outputs an inner tensor; of `whole` if a function of the model hides it."""
    shows = any(output in node.output for node in model.graph.node)
    copy = deepcopy(model if shows else whole)
    inner = onnx.helper.make_tensor_value_info(output, onnx.TensorProto.FLOAT, None)
    copy.graph.output.append(inner)
    return copy
