"""Runs a graph in a plain inference session on random inputs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from service.training.engines.runtime import CPU, native, onnxruntime, session_options
from service.training.errors import refuse
from service.training.forward.graph import (
    BATCH,
    TOKENS,
    Graph,
    input_at,
    is_default,
)
from service.training.graph.flow import refill
from service.training.graph.node import attributes_of, whole_numbers
from service.training.graph.passes.modes import switch_off
from storage.records.signatures import TargetSpec

Feeds = dict[str, NDArray[np.generic]]
Array = NDArray[np.generic]

_SOURCE = re.compile(r"/\S+\.(?:cc|h):\d+ (?:.*?(?=\[ONNXRuntimeError\]))?")
NUMBERS = "hone.numbers"
"""The label that several inputs are made of; they may be classes, so what is drawn is from 0 to 1.
See service/training/forward/own_loss.py."""
_SEE_THROUGH = ("Cast", "Identity", "Unsqueeze", "Squeeze", "Reshape", "Flatten", "Transpose")


def run(model: onnx.ModelProto, batches: Sequence[Feeds]) -> list[Array]:
    """First output for each of the feeds. Raises GraphRefused as `run_all` does."""
    return [outputs[0] for outputs in run_all(model, batches)]


def run_all(model: onnx.ModelProto, batches: Sequence[Feeds]) -> list[list[Array]]:
    """All outputs for each of the feeds, one thread, no graph optimization.

    Raises GraphRefused with the engine's message if the model does not load or run.
    """
    try:
        loaded = session(model)
        return [loaded.run(None, feeds) for feeds in batches]
    except engine_errors() as error:
        raise refuse("/model", f"ONNX Runtime cannot run the model: {sentence(error)}") from None


def session(model: onnx.ModelProto) -> Any:
    """The model as it is written, in one thread. Raises the exceptions in `engine_errors`."""
    # Memory that is kept would stay as long as a result does.
    options = session_options(1, arena=False, reuse=False)
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=[CPU])


def run_named(model: onnx.ModelProto, batches: Sequence[Feeds]) -> list[Feeds]:
    """All outputs by name, for each of the feeds: the feeds of a subsequent model."""
    names = [value.name for value in model.graph.output]
    return [dict(zip(names, outputs, strict=True)) for outputs in run_all(model, batches)]


def engine_errors() -> tuple[type[Exception], ...]:
    """ONNX Runtime's exceptions: its own classes have no common root except Exception."""
    own = [
        value
        for value in vars(native).values()
        if isinstance(value, type) and issubclass(value, Exception)
    ]
    return (*own, RuntimeError, ValueError)


def sentence(error: Exception) -> str:
    """The engine's message, on one line, without source locations; at most 900 characters."""
    return _SOURCE.sub("", " ".join(str(error).split()))[:900]


def draw(
    graph: Graph,
    rows: int,
    *,
    seed: int = 0,
    flag: bool = True,
    least: int = 0,
    tokens: int | None = None,
) -> Feeds:
    """Random inputs that the graph can take: floats near zero, token ids inside their table.

    flag: the value of all booleans, which are masks of either meaning. least: of whole numbers,
    which may be lengths. tokens: the length of texts, by default the longest.
    """
    rng = np.random.default_rng(seed)
    tokens = tokens or (graph.lengths.tokens if graph.lengths else 1)
    feeds = {
        value.name: _draw(graph, value.name, (rows, tokens), rng, least=least)
        for value in graph.inputs
    }
    return {n: np.full_like(v, flag) if v.dtype == np.bool_ else v for n, v in feeds.items()}


def _draw(
    graph: Graph, name: str, sizes: tuple[int, int], rng: np.random.Generator, *, least: int
) -> Array:
    """sizes: of the first axis, and of others that are not fixed."""
    dims = graph.dims(name) or ()
    shape = tuple((sizes[0] if axis == 0 else size) or sizes[1] for axis, size in enumerate(dims))
    dtype = onnx.helper.tensor_dtype_to_np_dtype(graph.elem_type(name) or 1)
    if dtype == np.bool_ or (graph.lengths and name in graph.lengths.masks):
        return np.ones(shape, dtype)
    if np.issubdtype(dtype, np.integer):
        size = table_size(graph, name)
        return rng.integers(min(least, size - 1), size, shape).astype(dtype)
    numbers = rng.random(shape) if name == NUMBERS else rng.standard_normal(shape)
    return numbers.astype(dtype)


def draw_target(spec: TargetSpec, rows: int, *, seed: int) -> Array:
    """Random labels."""
    rng, shape = np.random.default_rng(seed), (rows, *spec.shape)
    if spec.num_classes is not None:
        return rng.integers(0, spec.num_classes, shape)
    return rng.random(shape).astype(spec.dtype)


def table_size(graph: Graph, name: str, depth: int = 8) -> int:
    """Rows of the table that an input looks up, of several the most; 2 if it is not known to."""
    sizes = [2]
    for node in graph.consumers(name) if depth else ():
        if is_default(node, "Gather") and input_at(node, 1) == name:
            dims = graph.dims(node.input[0]) or ()
            axis = attributes_of(node).get("axis", 0)
            size = dims[axis] if -len(dims) <= axis < len(dims) else None
            sizes.append(size or 2)
        elif is_default(node, *_SEE_THROUGH):
            sizes.append(table_size(graph, node.output[0], depth - 1))
    return max(1, min(sizes) if 1 in sizes else max(sizes))


def measure(graph: Graph) -> None:
    """Learn the shapes that inference cannot, by running two rows and three.

    An axis whose size is that of the batch both times is named so. Texts are run in a second
    length too, so that the axis of tokens is told. Raises GraphRefused.
    """
    model = inference_form(graph.model)
    made = [name for node in model.graph.node for name in node.output if name]
    vague = [name for name in made if not _is_settled(graph, name)]
    if not vague:
        return
    refill(model.graph.output, map(onnx.helper.make_empty_tensor_value_info, vague))
    long, short = graph.lengths.trials if graph.lengths else (1, 1)
    known = {(2, 3): BATCH, (2, 3, 2): BATCH, (long, long, short): TOKENS}
    runs = [(2, long), (3, long), *([(2, short)] if long > 1 else [])]
    results = run_all(model, [draw(graph, rows, tokens=tokens) for rows, tokens in runs])
    for name, *values in zip(vague, *results, strict=True):
        a = values[0]
        if not all(isinstance(value, np.ndarray) for value in values) or a.dtype == object:
            continue
        if len({value.ndim for value in values}) > 1:
            continue
        dims = [_axis(sizes, known) for sizes in zip(*(v.shape for v in values), strict=True)]
        kind = onnx.helper.np_dtype_to_tensor_dtype(a.dtype)
        graph.measured[name] = onnx.helper.make_tensor_value_info(name, kind, dims)
    graph.refresh()


def _is_settled(graph: Graph, name: str) -> bool:
    dims = graph.dims(name)
    return dims is not None and None not in dims[1:] and graph.elem_type(name) is not None


def _axis(sizes: tuple[int, ...], known: Mapping[tuple[int, ...], str]) -> int | str | None:
    """The size if it is the same in all runs, else the name of those that are known."""
    return sizes[0] if len({*sizes}) == 1 else known.get(sizes)


def inference_form(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy whose Dropout and BatchNormalization do not train."""
    copy = deepcopy(model)
    for node in copy.graph.node:
        if trains(node, model.graph):
            switch_off(node)
    return copy


def trains(node: onnx.NodeProto, graph: onnx.GraphProto) -> bool:
    """Is it an active Dropout, or a BatchNormalization on batch statistics?"""
    if is_default(node, "BatchNormalization"):
        outputs = [name for name in node.output if name]
        return len(outputs) > 1 or bool(attributes_of(node).get("training_mode"))
    if not is_default(node, "Dropout") or not input_at(node, 2):
        return False
    return whole_numbers(graph.node, graph.initializer).get(node.input[2]) != 0
