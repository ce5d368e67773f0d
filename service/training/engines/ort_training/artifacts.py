"""Makes artifacts for On-Device Training from a step of standard operators.

Microsoft's runtimes, including those on phones, train with four files: a training model that
accumulates gradients in buffers, an evaluation model, an optimizer model and a checkpoint. Names
and inputs are those of `onnxruntime.training.artifacts`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from service.training.engines.manifest import Draw
from service.training.engines.ort_training import runtime
from service.training.engines.ort_training.recognize import LOSS_NAME, OUTPUT_NAME
from service.training.graph.flow import refill
from service.training.graph.step import StepModel, gradient_of
from service.training.loss import LOSS_SCALE
from service.training.protocol.messages.preparation import Prepare
from service.training.protocol.messages.shared import Artifacts

FILES = {
    "training_model": "training_model.onnx",
    "eval_model": "eval_model.onnx",
    "optimizer_model": "optimizer_model.onnx",
    "checkpoint": "checkpoint",
}
"""Role → file name of Microsoft's tools."""
MICROSOFT = "com.microsoft"
RESET = "lazy_reset_grad"
OVERWRITE = "hone.overwrite"
ADAMW_EPSILON = 1e-8
"""PyTorch's default; the engine's own is 1e-6."""
ADAM_MODE_TORCH = 0
"""Makes the engine's AdamW the same as PyTorch's; its default, 1, is that of Hugging Face."""


def paths(directory: Path) -> Artifacts:
    """The paths of the artifacts in a folder."""
    return Artifacts(**{role: str(directory / name) for role, name in FILES.items()})


def write(
    step: StepModel,
    evaluation: onnx.ModelProto,
    *,
    values: Mapping[str, onnx.TensorProto],
    frozen: Collection[str],
    output: str,
    task: Prepare,
) -> Artifacts:
    """Write the four files below the task's folder.

    values: the forward model's initializers by name. frozen: those that are in the checkpoint
    although they do not train. output: the tensor that is measured. Raises EngineMissing.
    """
    tools, directory = runtime.training_artifacts(), Path(task.work_dir)
    directory.mkdir(parents=True, exist_ok=True)
    training, evaluation = deepcopy(step.model), deepcopy(evaluation)
    unshared = (*step.updated, *step.loss.label_tensors)
    shared = [*unshared, *_shared([training, evaluation], values, frozen)]
    for model in (training, evaluation):
        _feed_in(model, [*step.parameters, *shared])
        _compute_scale(model, step)
    _draw_masks(training, step)
    _accumulate(training, step)
    helper.set_model_props(evaluation, {LOSS_NAME: step.loss.name, OUTPUT_NAME: output})
    onnx.save_model(training, directory / FILES["training_model"])
    onnx.save_model(evaluation, directory / FILES["eval_model"])
    trained = [values[name] for name in step.parameters]
    rest = [values[name] for name in shared]
    tools.onnxblock.save_checkpoint((trained, rest), directory / FILES["checkpoint"])
    optimizer_model = _optimizer_model(tools.onnxblock, task, trained)
    optimizer_model.ir_version = training.ir_version
    onnx.save_model(optimizer_model, directory / FILES["optimizer_model"])
    return paths(directory)


def _shared(
    models: Iterable[onnx.ModelProto],
    values: Mapping[str, onnx.TensorProto],
    names: Collection[str],
) -> list[str]:
    """Frozen weights that are still initializers of a model, with unchanged values."""
    kept = [each for model in models for each in model.graph.initializer if each.name in names]
    return sorted({tensor.name for tensor in kept if _equal(tensor, values[tensor.name])})


def _equal(one: onnx.TensorProto, other: onnx.TensorProto) -> bool:
    return one.data_type == other.data_type and np.array_equal(
        numpy_helper.to_array(one), numpy_helper.to_array(other), equal_nan=True
    )


def _feed_in(model: onnx.ModelProto, names: Sequence[str]) -> None:
    """Make these tensors the last inputs, in this order; those that the model lacks are skipped."""
    graph = model.graph
    held = {tensor.name: tensor for tensor in graph.initializer if tensor.name in names}
    inputs = {value.name: value for value in graph.input}
    for name, tensor in held.items():
        inputs[name] = helper.make_tensor_value_info(name, tensor.data_type, tensor.dims)
    order = [name for name in inputs if name not in names]
    order += [name for name in names if name in inputs]
    refill(graph.initializer, [t for t in graph.initializer if t.name not in held])
    refill(graph.input, [inputs[name] for name in order])


def _compute_scale(model: onnx.ModelProto, step: StepModel) -> None:
    """Make the graph compute the scale, which sessions are fed: 1 / batch."""
    _drop_inputs(model, [LOSS_SCALE])
    nodes = [
        *_batch(model, step),
        helper.make_node("Squeeze", ["hone.batch"], ["hone.batch_count"]),
        helper.make_node("Cast", ["hone.batch_count"], ["hone.batch_float"], to=TensorProto.FLOAT),
        helper.make_node("Reciprocal", ["hone.batch_float"], [LOSS_SCALE], name=LOSS_SCALE),
    ]
    refill(model.graph.node, [*nodes, *model.graph.node])


def _batch(model: onnx.ModelProto, step: StepModel) -> list[onnx.NodeProto]:
    """The size of the batch, int64 (1,)."""
    first = numpy_helper.from_array(np.zeros(1, np.int64), "hone.first")
    model.graph.initializer.append(first)
    fed = step.target or step.inputs[0]
    return [
        helper.make_node("Shape", [fed], ["hone.batch_shape"]),
        helper.make_node("Gather", ["hone.batch_shape", "hone.first"], ["hone.batch"]),
    ]


def _draw_masks(model: onnx.ModelProto, step: StepModel) -> None:
    """Make the engine's own Dropout draw each mask, so that its seed makes a step repeatable."""
    if not step.random:
        return
    _drop_inputs(model, [draw.name for draw in step.random])
    model.graph.initializer.append(numpy_helper.from_array(np.array(True), "hone.on"))
    draws = {draw.name: draw for draw in step.random}
    nodes: list[onnx.NodeProto] = []
    for node in model.graph.node:
        draw = draws.get(node.input[0]) if node.op_type == "GreaterOrEqual" else None
        nodes += [node] if draw is None else _dropped(model, draw, node)
    refill(model.graph.node, nodes)


def _dropped(model: onnx.ModelProto, draw: Draw, compared: onnx.NodeProto) -> list[onnx.NodeProto]:
    """A Dropout of ones, whose second output is the mask of kept elements."""
    ends = ("moves", "sizes", "shape", "ones", "rest")
    moves, sizes, shape, ones, rest = (f"{draw.name}.{end}" for end in ends)
    fixed = np.array(draw.shape, np.int64)
    model.graph.initializer.append(numpy_helper.from_array(fixed == -1, moves))
    model.graph.initializer.append(numpy_helper.from_array(fixed, sizes))
    one = helper.make_tensor("value", TensorProto.FLOAT, [1], [1.0])
    return [
        helper.make_node("Where", [moves, "hone.batch", sizes], [shape]),
        helper.make_node("ConstantOfShape", [shape], [ones], value=one),
        helper.make_node(
            "Dropout",
            [ones, compared.input[1], "hone.on"],
            [rest, compared.output[0]],
            name=f"{draw.name}.dropout",
        ),
    ]


def _accumulate(model: onnx.ModelProto, step: StepModel) -> None:
    """Accumulate gradients in input buffers, and overwrite statistics with new ones."""
    graph = model.graph
    outputs = {value.name: value for value in graph.output}
    moved = [gradient_of(name) for name in step.parameters]
    results = [each for each in graph.output if each.name not in {*moved, *step.updated.values()}]
    for number, (name, gradient) in enumerate(zip(step.parameters, moved, strict=True)):
        buffer, flag = (f"{name}_grad.accumulation.{end}" for end in ("buffer", "out"))
        graph.node.append(_accumulator([buffer, gradient, RESET], flag, number))
        graph.input.append(outputs[gradient])
        graph.input[-1].name = buffer
        results.append(helper.make_tensor_value_info(flag, TensorProto.BOOL, [1]))
    for name, new in step.updated.items():
        graph.node.append(_accumulator([name, new, OVERWRITE], f"{new}.written", name))
    if step.updated:
        graph.initializer.append(numpy_helper.from_array(np.array([True]), OVERWRITE))
    graph.input.append(helper.make_tensor_value_info(RESET, TensorProto.BOOL, [1]))
    refill(graph.output, results)
    model.opset_import.append(helper.make_opsetid(MICROSOFT, 1))


def _accumulator(inputs: list[str], flag: str, number: object) -> onnx.NodeProto:
    return helper.make_node(
        "InPlaceAccumulatorV2",
        inputs,
        [flag],
        name=f"GradientAccumulator{number}",
        domain=MICROSOFT,
    )


def _optimizer_model(
    onnxblock: Any, task: Prepare, trained: Sequence[onnx.TensorProto]
) -> onnx.ModelProto:
    norm = task.max_grad_norm
    clip = None if norm is None else onnxblock.optim.ClipGradNorm(norm)
    if task.optimizer == "sgd":
        block = onnxblock.optim.SGD(clip_grad=clip)
    else:
        block = onnxblock.optim.AdamW(
            eps=ADAMW_EPSILON, weight_decay=task.weight_decay, clip_grad=clip
        )
    with onnxblock.empty_base(opset_version=17):
        block((trained, []))
        model: onnx.ModelProto = block.to_model_proto()
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.name == "adam_mode":
                attribute.i = ADAM_MODE_TORCH
    return model


def _drop_inputs(model: onnx.ModelProto, names: Collection[str]) -> None:
    refill(model.graph.input, [value for value in model.graph.input if value.name not in names])
