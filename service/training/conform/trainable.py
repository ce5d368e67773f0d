"""Which initializers train."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from fnmatch import fnmatchcase

import numpy as np
import onnx

from service.training.conform.errors import refusal, refuse
from service.training.conform.graph import FLOAT, Graph, is_default
from storage.errors import Problem

WEIGHT_SLOTS: dict[str, tuple[int, ...]] = {
    "BatchNormalization": (1, 2),
    "Conv": (1, 2),
    "ConvTranspose": (1, 2),
    "Einsum": (0, 1),
    "GRU": (1, 2, 3),
    "Gather": (0,),
    "Gemm": (0, 1, 2),
    "GroupNormalization": (1, 2),
    "InstanceNormalization": (1, 2),
    "LSTM": (1, 2, 3),
    "LayerNormalization": (1, 2),
    "MatMul": (0, 1),
    "PRelu": (1,),
    "RNN": (1, 2, 3),
}
"""Inputs of an operator that hold a weight or a bias."""

LAYERS = ("Conv", "ConvTranspose", "Einsum", "GRU", "Gemm", "LSTM", "MatMul", "RNN")
"""Operators that count as a layer; what comes behind one, up to the next, belongs to it."""

STATISTICS_SLOTS = (3, 4)
"""Running mean and variance of BatchNormalization: they never train."""

MASK_FROM = 1e4
"""Weights are smaller than this, what a mask adds is larger."""

_ELEMENTWISE = ("Add", "Mul")
_LINEAR = ("MatMul", "Conv", "Gemm", "Einsum")
_PASS_THROUGH = frozenset(
    ("Transpose", "Reshape", "Unsqueeze", "Squeeze", "Identity", "Concat", "Slice", "Expand")
)


def select(graph: Graph, patterns: Sequence[str] | None) -> tuple[str, ...]:
    """Names of the initializers that train, in graph order.

    patterns: globs over initializer names, `last:N` for the last N layers, `head` for the last;
    None for every weight. Raises GraphRefused with all patterns that match nothing.
    """
    _refuse_other_precisions(graph)
    if patterns is not None:
        return _matching(graph, patterns)
    return _weights(graph)


def _weights(graph: Graph) -> tuple[str, ...]:
    names = tuple(name for name in graph.initializers if is_weight(graph, name))
    if not set(names) - graph.constants:
        # Some tools write parameters as Constant nodes; then these are all that there is to train.
        graph.constants.clear()
        names = tuple(name for name in graph.initializers if is_weight(graph, name))
    if not names:
        raise refuse(
            "/model/graph/initializer",
            "the graph has no float32 weight that could train; export the model with its "
            "parameters as initializers",
        )
    return names


def is_statistic(graph: Graph, name: str) -> bool:
    """Is it a running mean or variance?"""
    return any(
        is_default(node, "BatchNormalization") and name in [node.input[i] for i in STATISTICS_SLOTS]
        for node in graph.consumers(name)
    )


def _matching(graph: Graph, patterns: Sequence[str]) -> tuple[str, ...]:
    names = [
        name
        for name, tensor in graph.initializers.items()
        if tensor.data_type == FLOAT
        and tensor.dims
        and name not in graph.constants
        and not is_statistic(graph, name)
        and not _is_mask(graph, name)
    ]
    chosen: set[str] = set()
    problems = []
    for index, pattern in enumerate(patterns):
        found = {name for name in names if fnmatchcase(name, pattern)}
        if not found and (count := _layer_count(pattern)):
            found = last_layers(graph, count)
        if not found:
            problems.append(Problem(f"/spec/trainable/{index}", _unmatched(pattern, names)))
        chosen |= found
    if not patterns:
        problems.append(Problem("/spec/trainable", "the list is empty; leave it out to train all"))
    if problems:
        raise refusal(problems)
    return tuple(name for name in names if name in chosen)


def _layer_count(pattern: str) -> int:
    """How many of the last layers the pattern asks for, 0 if it is a glob."""
    if pattern == "head":
        return 1
    match = re.fullmatch(r"last:([1-9][0-9]{0,5})", pattern)
    return int(match[1]) if match else 0


def last_layers(graph: Graph, count: int) -> set[str]:
    """The weights that are read from the `count`-th last layer on, in graph order.

    A layer is an operator with a matrix or a kernel that trains: a convolution, a product, a
    recurrence. Norms and biases behind it belong to it.
    """
    first = {name: _first_reader(graph, name) for name in _weights(graph)}
    places = {node.name: place for place, node in enumerate(graph.proto.node)}
    layers = sorted({places[node.name] for node in first.values() if is_default(node, *LAYERS)})
    begin = layers[-count] if len(layers) >= count else 0
    return {name for name, node in first.items() if places[node.name] >= begin}


def _first_reader(graph: Graph, name: str) -> onnx.NodeProto:
    """The operator that uses the weight, behind those that only pass it on."""
    node = graph.consumers(name)[0]
    while is_default(node, *_PASS_THROUGH) and graph.consumers(node.output[0]):
        node = graph.consumers(node.output[0])[0]
    return node


def _unmatched(pattern: str, names: Sequence[str]) -> str:
    near = difflib.get_close_matches(pattern.strip("*"), names, n=5, cutoff=0.3) or names[:5]
    return f'"{pattern}" matches no float32 parameter; the nearest names: {", ".join(near)}'


def is_weight(graph: Graph, name: str) -> bool:
    tensor = graph.initializers[name]
    if tensor.data_type != FLOAT or not tensor.dims or is_statistic(graph, name):
        return False
    if name in graph.constants:
        return False
    return any(_weighs(graph, node, name, name) for node in graph.consumers(name))


def _weighs(graph: Graph, node: onnx.NodeProto, tensor: str, initializer: str) -> bool:
    if is_default(node, *WEIGHT_SLOTS):
        slots = () if _is_group_step(graph, node) else WEIGHT_SLOTS[node.op_type]
        return any(i < len(node.input) and node.input[i] == tensor for i in slots)
    if is_default(node, *_ELEMENTWISE):
        return _is_elementwise_weight(graph, node, tensor, initializer)
    if is_default(node, "Concat") and _joins_activations(graph, node):
        return True  # a learned token, such as a vision transformer's class token
    if is_default(node, *_PASS_THROUGH) and tensor in node.input:
        readers = graph.consumers(node.output[0])
        return any(_weighs(graph, reader, node.output[0], initializer) for reader in readers)
    return False


def _joins_activations(graph: Graph, concat: onnx.NodeProto) -> bool:
    """Is one of its inputs computed from the samples?"""
    seen: set[str] = set()
    pending = list(concat.input)
    inputs = {value.name for value in graph.inputs}
    while pending:
        name = pending.pop()
        if name in inputs:
            return True
        maker = graph.producer(name)
        if maker is not None and name not in seen and not is_default(maker, "Shape"):
            seen.add(name)
            pending.extend(filter(None, maker.input))
    return False


def _is_group_step(graph: Graph, node: onnx.NodeProto) -> bool:
    """InstanceNormalization as the inside of an exported GroupNorm, whose weights come after it."""
    if not is_default(node, "InstanceNormalization"):
        return False
    scale, bias = graph.array(node.input[1]), graph.array(node.input[2])
    before, after = graph.producer(node.input[0]), graph.consumers(node.output[0])
    return (
        before is not None
        and all(is_default(step, "Reshape") for step in (before, *after))
        and scale is not None
        and bias is not None
        and bool(np.all(scale == 1) and np.all(bias == 0))
    )


def _is_elementwise_weight(
    graph: Graph, node: onnx.NodeProto, tensor: str, initializer: str
) -> bool:
    others = [graph.producer(name) for name in node.input if name != tensor]
    after_linear = any(other is not None and is_default(other, *_LINEAR) for other in others)
    if after_linear and is_default(node, "Add"):
        return True
    return int(np.prod(graph.initializers[initializer].dims)) > 1 and not _is_mask(
        graph, initializer
    )


def _is_mask(graph: Graph, name: str) -> bool:
    """Does it hold minus infinity or its stand-ins, as attention masks do?"""
    value = graph.array(name)
    return value is not None and not bool(np.all(np.abs(value.astype(np.float32)) < MASK_FROM))


def _refuse_other_precisions(graph: Graph) -> None:
    kinds = {
        onnx.TensorProto.FLOAT16: "float16",
        onnx.TensorProto.BFLOAT16: "bfloat16",
        onnx.TensorProto.DOUBLE: "float64",
    }
    wrong = [
        (name, kinds[tensor.data_type])
        for name, tensor in graph.initializers.items()
        if tensor.data_type in kinds
        and any(
            is_default(node, *WEIGHT_SLOTS) and name in node.input for node in graph.consumers(name)
        )
    ]
    if wrong:
        name, dtype = wrong[0]
        raise refuse(
            "/model/graph/initializer",
            f'{len(wrong)} weights are {dtype} ("{name}" is one); training needs float32: '
            "export the model after model.float()",
        )
