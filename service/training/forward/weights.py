"""Which initializers are weights: learned values in an operator's weight slot."""

from __future__ import annotations

import re

import numpy as np
import onnx
from numpy.typing import NDArray

from service.training.forward.graph import FLOAT, Graph, is_default
from service.training.graph.flow import reads
from service.training.graph.node import attributes_of
from service.training.loss import LABEL_MEAN, LABEL_SCALE

WEIGHT_SLOTS: dict[str, tuple[int, ...]] = {
    "BatchNormalization": (1, 2),
    "Conv": (1, 2),
    "ConvTranspose": (1, 2),
    "DeformConv": (1, 3),
    "Einsum": (0, 1, 2, 3, 4, 5),
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

STATISTICS_SLOTS = (3, 4)
"""Running mean and variance of BatchNormalization: they never train."""

_INITIAL_STATES = (5, 6)
"""Of recurrent operators: usually zeros, sometimes learned."""

_COMPUTED = re.compile(r"\d+|onnx::.*|/.*|val_\d+")
"""Names that PyTorch's exporters give to results; parameters and buffers keep theirs."""

MASK_FROM = 1e4
"""Weights are smaller than this; values that a mask adds are larger."""

_OTHER_FLOATS = {
    onnx.TensorProto.FLOAT16: "float16",
    onnx.TensorProto.BFLOAT16: "bfloat16",
    onnx.TensorProto.DOUBLE: "float64",
}
_ELEMENTWISE = ("Add", "Mul")
LINEAR = ("MatMul", "Conv", "ConvTranspose", "Gemm", "Einsum")
_GATES = ("Exp", "Sigmoid", "Softmax", "Softplus", "Tanh")
"""Operators that turn a parameter into a factor, as that of a temperature, or into a decay."""
_RECURRENT = ("GRU", "LSTM", "RNN")
_WAVES = ("Cos", "Sin")
"""Operators that compute position tables, which belong to the program."""
PASS_THROUGH = frozenset(
    ("Transpose", "Reshape", "Unsqueeze", "Squeeze", "Identity", "Concat", "Slice", "Expand")
)


def is_weight(graph: Graph, name: str) -> bool:
    """Does it train by default?"""
    if name in graph.parameters:
        trains = graph.elem_type(name) == FLOAT and bool(graph.consumers(name))
    else:
        trains = name not in graph.constants and _could_train(graph, name)
    return trains and not _is_wave_table(graph, name)


def other_precisions(graph: Graph) -> dict[str, str]:
    """Weights that are floats and not float32 → their dtype."""
    return {
        name: _OTHER_FLOATS[tensor.data_type]
        for name, tensor in graph.initializers.items()
        if tensor.data_type in _OTHER_FLOATS
        and graph.consumers(name)
        and is_default(first_reader(graph, name), *WEIGHT_SLOTS)
    }


def adopt_constants(graph: Graph) -> None:
    """Treat Constant nodes as parameters if there are no others: some tools write them this way."""
    if not any(is_weight(graph, name) for name in graph.initializers):
        graph.constants -= {name for name in graph.constants if _could_train(graph, name)}


def first_reader(graph: Graph, name: str) -> onnx.NodeProto:
    """The operator that uses the weight, after those that only pass it on."""
    node = graph.consumers(name)[0]
    while _passes_on(node) and graph.consumers(node.output[0]):
        node = graph.consumers(node.output[0])[0]
    return node


def _could_train(graph: Graph, name: str) -> bool:
    tensor = graph.initializers.get(name)
    if tensor is None or tensor.data_type != FLOAT or is_statistic(graph, name):
        return False
    if not tensor.dims and not _has_name_of_program(graph, name):
        return False
    return any(_weighs(graph, node, name, name) for node in graph.consumers(name))


def _weighs(graph: Graph, node: onnx.NodeProto, tensor: str, initializer: str) -> bool:
    if is_default(node, *WEIGHT_SLOTS):
        slots = () if _is_group_step(graph, node) else WEIGHT_SLOTS[node.op_type]
        if is_default(node, *_RECURRENT) and _has_name_of_program(graph, initializer):
            slots = (*slots, *_INITIAL_STATES)
        return any(i < len(node.input) and node.input[i] == tensor for i in slots)
    if is_default(node, *_ELEMENTWISE):
        return _is_elementwise_weight(graph, node, tensor, initializer)
    if is_default(node, "Concat") and not graph.fed.isdisjoint(node.input):
        return True  # a learned token, such as a vision transformer's class token
    if _passes_on(node) and tensor in node.input:
        readers = graph.consumers(node.output[0])
        return any(_weighs(graph, reader, node.output[0], initializer) for reader in readers)
    return _makes_weight(graph, node, is_named=_has_name_of_program(graph, initializer))


def _passes_on(node: onnx.NodeProto) -> bool:
    """Does it move numbers alone, or make float32 of them, which weights are?"""
    is_cast = is_default(node, "Cast") and attributes_of(node).get("to", 0) == FLOAT
    return is_cast or is_default(node, *PASS_THROUGH)


def _makes_weight(
    graph: Graph, node: onnx.NodeProto, *, is_named: bool, opens: bool = False
) -> bool:
    """Does it compute a matrix, kernel or gate from parameters alone, as weight norm does?

    is_named: as the program calls it. opens: whether a node before it computes a gate.
    """
    if not graph.fed.isdisjoint(reads(node)) or is_default(node, *_WAVES):
        return False
    opens = opens or is_default(node, *_GATES)
    users = ("Add", "Mul", *LINEAR) if opens and is_named else LINEAR
    return any(
        is_default(reader, *users) and name in [reader.input[i] for i in (0, 1)]
        if not graph.fed.isdisjoint(reader.input)
        else _makes_weight(graph, reader, is_named=is_named, opens=opens)
        for name in node.output
        for reader in graph.consumers(name)
    )


def _is_group_step(graph: Graph, node: onnx.NodeProto) -> bool:
    """InstanceNormalization inside an exported GroupNorm, whose weights come after it."""
    if not is_default(node, "InstanceNormalization"):
        return False
    scale, bias = graph.array(node.input[1]), graph.array(node.input[2])
    if scale is None or bias is None or np.any(scale != 1) or np.any(bias != 0):
        return False
    after = graph.consumers(node.output[0])
    while len(after) == 1 and is_default(after[0], "Reshape"):
        after = graph.consumers(after[0].output[0])
    return any(
        is_default(step, "Mul") and any(name in graph.initializers for name in step.input)
        for step in after
    )


def _is_elementwise_weight(
    graph: Graph, node: onnx.NodeProto, tensor: str, initializer: str
) -> bool:
    if not graph.initializers[initializer].dims:
        return False
    others = [graph.producer(name) for name in node.input if name != tensor]
    after_linear = any(other is not None and is_default(other, *LINEAR) for other in others)
    if after_linear and is_default(node, "Add"):
        return True
    size = int(np.prod(graph.initializers[initializer].dims))
    if size == 1 and not _has_name_of_program(graph, initializer):
        return False
    return size > 0 and not is_mask(graph, initializer)


def _has_name_of_program(graph: Graph, name: str) -> bool:
    """Does TorchScript's exporter call it as the program does? Then it is no literal number."""
    return not graph.parameters and is_named_by_pytorch(graph.model, name)


def is_named_by_pytorch(model: onnx.ModelProto, name: str) -> bool:
    """Is the file PyTorch's, and the name not one that its exporters give to results?"""
    return model.producer_name == "pytorch" and not _COMPUTED.fullmatch(name)


def _is_wave_table(graph: Graph, name: str) -> bool:
    """Does it contain sines and cosines of positions, which PyTorch does not train?"""
    shape = graph.initializers[name].dims
    readers = graph.consumers(name)
    if len(shape) < 2 or shape[-1] < 4 or any(is_default(node, *LINEAR) for node in readers):
        return False
    value = graph.array(name)
    assert value is not None
    rows = value.reshape(-1, shape[-1])
    return len(rows) > 1 and _are_waves(rows[:2]) and _are_waves(rows)


def _are_waves(rows: NDArray[np.generic]) -> bool:
    """Of each pair, the squares sum up to 1, in whichever order the pairs are."""
    squares = np.square(rows, dtype=np.float32)
    half = rows.shape[1] / 2
    return bool(squares.max() <= 1.0001 and np.allclose(squares.sum(1), half, rtol=1e-4))


def is_mask(graph: Graph, name: str) -> bool:
    """Does it contain minus infinity or a substitute for it, like attention masks?"""
    value = graph.array(name)
    return value is not None and not bool(np.all(np.abs(value.astype(np.float32)) < MASK_FROM))


def is_statistic(graph: Graph, name: str) -> bool:
    """Is it a running mean or variance, or what scales labels?"""
    return name in (LABEL_SCALE, LABEL_MEAN) or any(
        is_default(node, "BatchNormalization") and name in [node.input[i] for i in STATISTICS_SLOTS]
        for node in graph.consumers(name)
    )
