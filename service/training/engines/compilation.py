"""Compiles a step's graphs into the files that an engine opens."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from math import prod
from pathlib import Path

import numpy as np
import onnx
from msgspec.structs import asdict, replace
from numpy.typing import NDArray

from service.training.adapters.branches import merged_form
from service.training.engines import checkpoint, runtime
from service.training.engines.manifest import (
    METADATA_PREFIX,
    Adapter,
    ClassHead,
    Files,
    Manifest,
    TrainedTensor,
    Work,
    read_manifest,
    write_manifest,
)
from service.training.engines.runtime import LOAD_ERRORS, check_memory, optimize
from service.training.engines.sessions.shares import adds_up
from service.training.errors import GraphRefused
from service.training.graph.passes.inference import without_weights
from service.training.graph.passes.simplify import keep_tensors
from service.training.graph.step import StepModel

logger = logging.getLogger(__name__)

PRODUCTS = frozenset({"Gemm", "MatMul", "Conv", "ConvTranspose"})
RECURRENT = frozenset({"GRU", "LSTM", "RNN"})
SCAN_ROWS, SCAN_ELEMENTS = 32, 1 << 26
"""Rows of a run, as long as its results have no more elements, of a step with a Scan: its products
read the weights anew for each time step. A row of two LSTM layers in both directions took one
thread 2.8 ms in runs of 8, 1.8 in runs of 16, and 1.6 in runs of 32."""

Shapes = dict[str, tuple[int, ...]]


def workload(model: onnx.ModelProto) -> Work:
    """The work per sample: the difference between two and one. Symbolic axes are the batch."""
    one, two = (_count(model, rows) for rows in (1, 2))
    multiplications, elements = (max(0, b - a) for a, b in zip(one, two, strict=True))
    scans = any(node.op_type == "Scan" for node in model.graph.node)
    least = min(SCAN_ROWS, SCAN_ELEMENTS // max(1, elements)) if scans else 0
    return Work(multiplications, elements, least)


def _count(model: onnx.ModelProto, rows: int) -> tuple[int, int]:
    """Multiplications and elements for a batch of this many rows."""
    shapes = _shapes(model, rows)
    multiplications = elements = 0
    for node in model.graph.node:
        results = sum(prod(shapes[name]) for name in node.output if name in shapes)
        elements += results
        multiplications += _multiplications(node, results, shapes)
    return multiplications, elements


def _shapes(model: onnx.ModelProto, rows: int) -> Shapes:
    fixed = without_weights(model)
    for value in (*fixed.graph.input, *fixed.graph.output):
        for size in value.type.tensor_type.shape.dim:
            if not size.HasField("dim_value"):
                size.dim_value = rows
    del fixed.graph.value_info[:]
    inferred = onnx.shape_inference.infer_shapes(fixed, data_prop=True).graph
    shapes: Shapes = {tensor.name: tuple(tensor.dims) for tensor in inferred.initializer}
    for value in (*inferred.input, *inferred.value_info, *inferred.output):
        sizes = value.type.tensor_type.shape.dim
        shapes[value.name] = tuple(max(1, size.dim_value) for size in sizes)
    return shapes


def _multiplications(node: onnx.NodeProto, results: int, shapes: Shapes) -> int:
    """results: number of elements in the node's result."""
    first, second, third = (shapes.get(name) for name in (*node.input, "", "", "")[:3])
    if node.op_type in RECURRENT and first and second and third:
        return prod(first[:2]) * (prod(second) + prod(third))
    if node.op_type not in PRODUCTS or not first or not second:
        return 0
    if node.op_type == "Conv":
        return results * prod(second[1:])
    if node.op_type == "ConvTranspose":
        return prod(first) * prod(second[1:])
    transposed = any(attribute.name == "transA" and attribute.i for attribute in node.attribute)
    return results * (first[0] if transposed else first[-1])


ENGINE = "sessions"
SMALL_BYTES = 1 << 20
QUANTIZES = ("DynamicQuantizeLinear", "QuantizeLinear")


def compile_model(
    step: StepModel,
    evaluation: onnx.ModelProto,
    inference: onnx.ModelProto,
    *,
    output: str,
    directory: Path,
    here: StepModel | None = None,
    classes: int | None = None,
    head: ClassHead | None = None,
    adapters: tuple[Adapter, ...] = (),
    is_right: Callable[[Files], bool] = lambda _files: True,
) -> Files:
    """Write a model's files.

    inference: the graph to export, with the values that training starts from. output: the tensor
    that is measured. here: the step for this processor, by default the same. classes: of a step by
    class. head, adapters: as in the manifest. is_right: whether optimized files compute what the
    step does; others are not kept. Raises GraphRefused if a trained tensor is no float32
    initializer of `inference`.
    """
    directory.mkdir(parents=True, exist_ok=True)
    files = Files.below(directory)
    _, values = without(inference, [*step.parameters, *step.updated, *step.loss.label_tensors])
    manifest = _manifest(step, values, output)
    own = next((s for s in (here, step) if s and _optimize(s, files, manifest, is_right)), None)
    sums = (own is not None and own.once is not None) or adds_up(manifest)
    for form, path in ((step, files.step_model), (step.by_class, files.class_step_model)):
        if form is not None and path is not None:
            onnx.save_model(form.adding_up if sums else form.model, path)
    onnx.save_model(evaluation, files.eval_model)
    checkpoint.save(files.checkpoint, _beginning(head), values)
    manifest = replace(
        manifest,
        classes=classes,
        head=head,
        adapters=adapters,
        distills=step.by_class is not None,
        optimized_for=runtime.here() if own else "",
        optimized_rows=own.rows if own else None,
        choices=own.choices if own else {},
    )
    write_manifest(manifest, files.manifest)
    write_skeleton(inference, files)
    return files


def _manifest(step: StepModel, values: Mapping[str, NDArray[np.float32]], output: str) -> Manifest:
    return Manifest(
        engine=ENGINE,
        inputs=step.inputs,
        output=output,
        parameters=_tensors(step.parameters, values),
        target=step.target,
        draws=step.random,
        statistics=_tensors([*step.updated, *step.loss.label_tensors], values),
        updated=tuple(step.updated.values()),
        loss=asdict(step.loss),
        batch_statistics=step.batch_statistics,
        work=workload(step.model),
        frozen=step.frozen,
        target_shape=_target_shape(step),
        quantizes=any(node.op_type in QUANTIZES for node in step.model.graph.node),
    )


def _target_shape(step: StepModel) -> tuple[int, ...]:
    """Of one row; 0 for a size that is not fixed."""
    fed = next((value for value in step.model.graph.input if value.name == step.target), None)
    sizes = [] if fed is None else fed.type.tensor_type.shape.dim
    return tuple(size.dim_value for size in sizes)[1:]


def _optimize(
    step: StepModel, files: Files, manifest: Manifest, is_right: Callable[[Files], bool]
) -> bool:
    """Keep the steps as the runtime optimized them, which takes 45 of the 75 ms in which a session
    of all of MobileNetV2 is opened, and what runs once for a batch.

    Not if constants that it computed make one large, or it cannot be written, or is wrong: jobs
    then open the step itself, and what is written next tells that the disk is full.
    """
    sums = step.once is not None or adds_up(manifest)
    graphs = [(step.adding_up if sums else step.model, files.optimized_step_model)]
    if step.once is not None:
        graphs += [
            (step.once.before, files.weights_model),
            (step.once.after, files.gradients_model),
        ]
    if step.by_class is not None:
        graph = step.by_class.adding_up if sums else step.by_class.model
        graphs.append((graph, files.optimized_class_step_model))
    draft = files.manifest.with_name("draft.onnx")
    paths = [path for _, path in graphs if path is not None]
    try:
        for (model, _), path in zip(graphs, paths, strict=True):
            onnx.save_model(model, draft)
            optimize(draft, path)
            if path.stat().st_size > 2 * draft.stat().st_size + SMALL_BYTES:
                break
        else:
            if is_right(files):
                return True
            logger.warning("optimized_step_differs once=%s", step.once is not None)
    except (RuntimeError, *LOAD_ERRORS) as error:
        check_memory(error)
    finally:
        draft.unlink(missing_ok=True)
    for path in paths:
        path.unlink(missing_ok=True)
    return False


def _beginning(head: ClassHead | None) -> checkpoint.CheckpointHead:
    if head is None:
        return checkpoint.CheckpointHead(ENGINE)
    return checkpoint.CheckpointHead(ENGINE, classes=head.classes, fresh=head.fresh)


def write_skeleton(whole: onnx.ModelProto, files: Files) -> None:
    """Write the model to export without its trained tensors, which exports add.

    whole: with the frozen part, and all outputs.
    """
    manifest = read_manifest(files.manifest)
    whole = merged_form(whole, manifest.adapters)
    merged = {name for pair in manifest.adapters if pair.merges for name in (pair.left, pair.right)}
    skeleton, _ = without(whole, [name for name in manifest.tensor_names if name not in merged])
    kept = {prop.key: prop.value for prop in skeleton.metadata_props}
    own = {key: value for key, value in kept.items() if not key.startswith(METADATA_PREFIX)}
    onnx.helper.set_model_props(skeleton, own)
    # Inferred shapes say that unequal parts of a SplitToSequence are equal: the runtime would give
    # one the memory of another.
    del skeleton.graph.value_info[:]
    onnx.save_model(skeleton, files.inference_model)


def without(
    model: onnx.ModelProto, names: Sequence[str]
) -> tuple[onnx.ModelProto, dict[str, NDArray[np.float32]]]:
    """A copy without these initializers, and their values."""
    skeleton = deepcopy(model)
    values: dict[str, NDArray[np.float32]] = {}
    for tensor in model.graph.initializer:
        if tensor.name in names:
            values[tensor.name] = onnx.numpy_helper.to_array(tensor)
    keep_tensors(skeleton.graph, {t.name for t in model.graph.initializer}.difference(names))
    wrong = [name for name in names if name not in values or values[name].dtype != np.float32]
    if wrong:
        raise GraphRefused(
            f"{', '.join(wrong)} cannot train: only float32 initializers of the graph can; store"
            " the weights as such, or freeze them"
        )
    return skeleton, values


def _tensors(
    names: Sequence[str], values: Mapping[str, NDArray[np.float32]]
) -> tuple[TrainedTensor, ...]:
    return tuple(TrainedTensor(name, values[name].shape) for name in names)
