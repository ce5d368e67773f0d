"""Makes the session engine's training models from a forward ONNX graph."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import onnx
from msgspec.structs import replace

from service.training.adapters.targets import fed_weights
from service.training.engines.compilation import compile_model, workload, write_skeleton
from service.training.engines.manifest import ClassHead, Files, read_manifest
from service.training.engines.runtime import channel_block
from service.training.errors import GraphRefused, refusal, refuse
from service.training.export.join import attach, join
from service.training.forward import head
from service.training.forward import trial as forward_trial
from service.training.forward.load import load
from service.training.forward.reading import ForwardModel, read_forward
from service.training.forward.signature import specification_problems
from service.training.graph.blocks.layout import BlockLayout
from service.training.graph.passes.modes import has_running_statistics
from service.training.graph.step import StepModel, build_evaluation, build_step
from service.training.loss import Loss
from service.training.preparation import measured_choices, texts
from service.training.preparation.label_scale import add_label_scale, is_scaled
from service.training.preparation.step_trial import Trial, run_as_it_is, run_as_jobs_do
from service.training.preparation.versions import describe
from service.training.protocol.messages.preparation import Prepare, Prepared
from service.training.protocol.messages.shared import FEATURE_DTYPE
from service.training.tasks import TASKS
from storage.errors import Problem

PREFIX_MODEL, TOKENIZER = "prefix_model.onnx", "tokenizer.json"
MUCH = 600_000
"""Multiplications of a sample's step. With as many, convolutions in blocks took 0.73 to 1.0 of the
time of matrix products if one reads a block of channels; with fewer of either 1.1."""
NO_NORMS = (
    "batch_norm is training, which changes nothing: what trains has no BatchNormalization, which "
    "exporters fold into the layer before it"
)
OWN_LOSS = (
    "adapters do not train by a loss that the model computes itself; name a loss of Hone's, or "
    "train weights"
)


def make_step_models(model_path: Path, task: Prepare) -> Prepared:
    """Check a forward model, and write its step, which was run as a test.

    Raises GraphRefused with every cause. Runs native code on the upload: call it in a process that
    may crash.
    """
    known = None
    if task.class_ids is not None:
        model_path, known = _with_classes(model_path, task, task.class_ids)
    facts = texts.facts_of(task)
    forward = read(model_path, task)
    text = None if facts is None else texts.described(task, facts, forward, model_path)
    if TASKS[task.loss].scales_labels:
        add_label_scale(forward)
    inference = forward.inference
    classifier = _head(forward, inference, task, known)
    files = _compile(forward, inference, task, classifier)
    artifacts = files.artifacts
    if forward.prefix is not None:
        prefix_model = Path(task.work_dir) / PREFIX_MODEL
        onnx.helper.set_model_props(forward.prefix, {FEATURE_DTYPE: task.feature_dtype})
        onnx.save_model(forward.prefix, prefix_model)
        artifacts = replace(artifacts, prefix_model=str(prefix_model))
    exported = inference if forward.prefix is None else join(forward.prefix, inference)
    prepared = describe(model_path, forward, artifacts, exported=exported)
    remainder = prepared.artifacts.remainder_model
    if remainder is not None:
        exported = attach(exported, onnx.load_model(remainder, load_external_data=False))
    if exported is not inference:
        write_skeleton(exported, files)
    tokenizer = None if task.tokenizer is None else str(Path(task.work_dir) / TOKENIZER)
    if task.tokenizer is not None:
        shutil.copyfile(task.tokenizer, Path(task.work_dir) / TOKENIZER)
    artifacts = replace(prepared.artifacts, remainder_model=None, tokenizer=tokenizer)
    chosen = read_manifest(files.manifest).choices
    notes = [measured_choices.NOTE.format(*choice) for choice in chosen.items()]
    if task.batch_norm == "training" and not _has(forward.model, "BatchNormalization"):
        notes.append(NO_NORMS)
    return replace(prepared, artifacts=artifacts, text=text, notes=(*prepared.notes, *notes))


def _with_classes(upload: Path, task: Prepare, ids: tuple[int, ...]) -> tuple[Path, Sequence[int]]:
    """A copy of the upload with these classes, and the ids of those that it had before."""
    changed, known = head.change(load(upload), task.output, ids, task.row_ids)
    path = Path(task.work_dir) / "changed.onnx"
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save_model(changed, path)
    return path, known


def _head(
    forward: ForwardModel, inference: onnx.ModelProto, task: Prepare, known: Sequence[int] | None
) -> ClassHead | None:
    """The head that trains, None if there is none.

    known: ids of the classes in the upload, if they were changed. Raises GraphRefused if they
    were and the head does not train.
    """
    classes = forward.signature.target.num_classes if TASKS[task.loss].has_classes else None
    if known is None and classes is None:
        return None
    ids = task.class_ids or tuple(range(classes or 0))
    try:
        classifier = head.describe(inference, forward.output, ids, ids if known is None else known)
    except GraphRefused:
        if known is not None:
            raise
        return None
    if known is None:
        return classifier if {*classifier.axes} <= {*forward.trainable} else None
    if classifier.weight not in forward.trainable:
        raise refuse(
            head.PLACE,
            f'the last layer\'s weights "{classifier.weight}" do not train, so that no class could'
            f" be learned; {head.REMEDY}, with them among trainable",
        )
    return classifier


def read(model_path: Path, task: Prepare) -> ForwardModel:
    """The task's forward model. Raises GraphRefused with every cause."""
    problems = specification_problems(task.loss, task.optimizer)
    if task.lora is not None and task.loss_output is not None:
        problems.append(Problem("/spec/trainable/lora", OWN_LOSS))
    if problems:
        raise refusal(problems)
    return read_forward(
        load(model_path),
        loss=task.loss,
        loss_output=task.loss_output,
        output=task.output,
        patterns=task.trainable,
        lora=task.lora,
        classes=task.classes,
        # Features include neither the label nor what it is compared with.
        divide=task.divide
        and task.loss_output is None
        and not (TASKS[task.loss].labels_tokens or TASKS[task.loss].compares_inputs),
        text=task.text,
    )


def build_models(
    forward: ForwardModel, task: Prepare, *, by_class: bool = False
) -> tuple[StepModel, onnx.ModelProto, Trial]:
    """The step model, the evaluation model, and a run of the step.

    by_class: with the step by that form of the loss.
    """
    model, output, loss = forward.model, forward.output, loss_of(forward, task)
    step = _step(forward, task, loss, by_class=by_class)
    trial = run_as_it_is(step, forward)
    step = replace(step, batch_statistics=not trial.rows_are_independent)
    moved = (*step.parameters, *step.updated, *loss.label_tensors)
    evaluation = build_evaluation(
        model, loss=loss, parameters=moved, output=output, frozen=step.frozen
    )
    return step, evaluation, trial


def loss_of(forward: ForwardModel, task: Prepare) -> Loss:
    """The loss that training minimizes."""
    if forward.loss_output is None:
        scales_labels = TASKS[task.loss].scales_labels and is_scaled(forward)
        spec = forward.signature.target
        has_unknown = spec.may_ignore and spec.num_classes is None
        return Loss(task.loss, scales_labels=scales_labels, has_unknown=has_unknown)
    target = forward.signature.target.name or None
    return Loss(task.loss, tensor=forward.loss_output, target=target)


def _for_this_processor(forward: ForwardModel, task: Prepare, step: StepModel) -> StepModel | None:
    """The step in the layout that the runtime's convolutions have on this processor, if any."""
    block = channel_block()
    if block is None or step.batch_statistics or step.frozen:
        return None
    if not (_has(step.model, "Conv", "ConvTranspose") or _fills_blocks(forward, step, block)):
        return None
    layout, by_class = BlockLayout(block, rows=block // 2), step.by_class is not None
    model = _step(forward, task, step.loss, layout=layout, by_class=by_class)
    if measured_choices.measure(layout, budget_s=measured_choices.BUDGET_S):
        model = _step(forward, task, step.loss, layout=layout, by_class=by_class)
    return replace(model, batch_statistics=False, choices=layout.choices.made)


def _has(model: onnx.ModelProto, *op_types: str) -> bool:
    return any(node.op_type in op_types for node in model.graph.node)


def _fills_blocks(forward: ForwardModel, step: StepModel, block: int) -> bool:
    """Whether blocks pay where the step has matrix products instead of all convolutions."""
    known = forward.graph.initializers
    read = [node.input[1] for node in forward.model.graph.node if node.op_type == "Conv"]
    channels = [known[name].dims[1] for name in read if name in known]
    return max(channels, default=0) >= block and workload(step.model).multiplications >= MUCH


def _step(
    forward: ForwardModel,
    task: Prepare,
    loss: Loss,
    *,
    by_class: bool,
    layout: BlockLayout | None = None,
) -> StepModel:
    return build_step(
        forward.model,
        loss=loss,
        parameters=forward.trainable,
        output=forward.output,
        batch_statistics=task.batch_norm == "training" or _normalizes_by_batch(forward.model),
        frozen=fed_weights(forward.graph, forward.trainable) if forward.adapters else (),
        layout=layout,
        by_class=by_class,
    )


def _compile(
    forward: ForwardModel, inference: onnx.ModelProto, task: Prepare, classifier: ClassHead | None
) -> Files:
    classes = forward.signature.target.num_classes if TASKS[task.loss].has_classes else None
    step, evaluation, trial = build_models(forward, task, by_class=bool(classes))
    files = compile_model(
        step,
        evaluation,
        inference,
        output=forward.output,
        directory=Path(task.work_dir),
        here=_for_this_processor(forward, task, step),
        classes=classes,
        head=classifier,
        adapters=forward.adapters,
        is_right=trial.agrees,
    )
    if not (files.optimized_step_model and files.optimized_step_model.is_file()):
        run_as_jobs_do(files, trial.feeds)
    return files


def _normalizes_by_batch(model: onnx.ModelProto) -> bool:
    """Was it exported with a BatchNormalization in training mode?"""
    stored = {tensor.name for tensor in model.graph.initializer}
    return any(
        has_running_statistics(node, stored) and forward_trial.trains(node, model.graph)
        for node in model.graph.node
    )
