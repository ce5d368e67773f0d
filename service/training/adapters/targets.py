"""The products of a graph that can have an adapter, and the choice among them."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Sequence
from fnmatch import fnmatchcase

import onnx
from msgspec import Struct

from service.training.errors import refusal
from service.training.forward.graph import FLOAT, Graph, is_default
from service.training.graph.builder import is_large
from service.training.graph.node import attributes_of
from service.training.graph.passes.microsoft import DOMAIN
from service.training.protocol.messages.preparation import Lora
from storage.errors import Problem

PLACE = "/spec/trainable/lora"
UNPACKED = ("DequantizeLinear", "Cast", "Identity")
"""Operators allowed between a stored weight and the product that reads it."""

FED = (FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.INT8, onnx.TensorProto.UINT8)
"""Types that can be fed to a session as NumPy arrays."""


class Target(Struct, frozen=True):
    """A product of a batch and a frozen weight.

    weight: the initializer. read: the tensor computed from it. result: the tensor that an adapter
    adds to. columns, rows: of x and of the result. outputs_first: the matrix is (rows, columns), as
    in PyTorch. is_float: the initializer is that matrix, in float32.
    """

    node: onnx.NodeProto
    weight: str
    read: str
    result: str
    columns: int
    rows: int
    outputs_first: bool = False
    is_float: bool = False


def choose(graph: Graph, lora: Lora) -> list[Target]:
    """The products that the globs match, by the name of the weight or the node.

    Raises GraphRefused with every glob that matches none, and every matrix smaller than the rank or
    multiplied in float16.
    """
    every = list(find(graph))
    problems, chosen = [], set[str]()
    for index, pattern in enumerate(lora.targets):
        fit = {target.node.name for target in every if _fits(target, pattern)}
        if not fit:
            problems.append(Problem(f"{PLACE}/targets/{index}", _unmatched(pattern, every)))
        chosen |= fit
    targets = [target for target in every if target.node.name in chosen]
    small = {t.weight: t for t in targets if min(t.columns, t.rows) < lora.rank}
    problems += [Problem(f"{PLACE}/rank", _too_small(each, lora.rank)) for each in small.values()]
    problems += [
        Problem(f"{PLACE}/targets", _is_half(target))
        for target in targets
        if graph.elem_type(target.node.input[0]) == onnx.TensorProto.FLOAT16
    ]
    if problems:
        raise refusal(problems)
    return targets


def find(graph: Graph) -> Iterator[Target]:
    """All products of a batch's tensor and a stored weight, in graph order."""
    for node in graph.proto.node:
        target = _target(graph, node)
        if target is not None and node.input[0] in graph.fed and target.columns and target.rows:
            yield target


def fed_weights(graph: Graph, trainable: Collection[str]) -> tuple[str, ...]:
    """Large initializers that are fed to a step instead of being stored in it.

    Sessions then share them, and cannot unpack all of them on loading. Weights of convolutions are
    left out: rearranging them on loading makes these faster.
    """
    return tuple(
        name
        for name, tensor in graph.initializers.items()
        if tensor.data_type in FED
        and tensor.HasField("raw_data")
        and is_large(tensor)
        and name not in trainable
        and not any(_convolves(graph, node) for node in graph.consumers(name))
    )


def _convolves(graph: Graph, node: onnx.NodeProto) -> bool:
    while is_default(node, *UNPACKED) and graph.consumers(node.output[0]):
        node = graph.consumers(node.output[0])[0]
    return "Conv" in node.op_type


def _target(graph: Graph, node: onnx.NodeProto) -> Target | None:
    if is_default(node, "MatMulInteger"):
        return _of_integers(graph, node)
    if node.domain == DOMAIN and node.op_type == "MatMulNBits":
        columns, rows = (attributes_of(node).get(name, 0) for name in ("K", "N"))
        return Target(node, node.input[1], node.input[1], node.output[0], columns, rows)
    if not is_default(node, "MatMul", "Gemm", "Conv"):
        return None
    read = node.input[1]
    weight, sizes = _stored(graph, read), [size or 0 for size in graph.dims(read) or ()]
    if weight is None or not _is_matrix(node, sizes):
        return None
    turned = node.op_type == "Conv" or bool(attributes_of(node).get("transB", 0))
    columns, rows = sizes[1::-1] if turned else sizes
    is_float = weight == read and graph.elem_type(weight) == FLOAT
    return Target(node, weight, read, node.output[0], columns, rows, turned, is_float)


def _is_matrix(node: onnx.NodeProto, sizes: Sequence[int]) -> bool:
    """Is every row of the result a row of x times a matrix of these sizes?"""
    if node.op_type == "Conv":
        one_place = set(sizes[2:]) <= {1} and len(sizes) > 1
        return one_place and attributes_of(node).get("group", 1) == 1
    return len(sizes) == 2 and not attributes_of(node).get("transA", 0)


def _of_integers(graph: Graph, node: onnx.NodeProto) -> Target | None:
    """MatMulInteger of DynamicQuantizeLinear, then Cast and a Mul by the scales."""
    weight, dims = node.input[1], graph.dims(node.input[1])
    maker = graph.producer(node.input[0])
    result = node.output[0]
    for op_type in ("Cast", "Mul"):
        readers = graph.consumers(result)
        if len(readers) != 1 or not is_default(readers[0], op_type):
            return None
        result = readers[0].output[0]
    is_dynamic = maker is not None and is_default(maker, "DynamicQuantizeLinear")
    if weight not in graph.initializers or not is_dynamic or dims is None or len(dims) != 2:
        return None
    columns, rows = (size or 0 for size in dims)
    return Target(node, weight, weight, result, columns, rows)


def _stored(graph: Graph, name: str) -> str | None:
    """The initializer that a product reads, directly or unpacked."""
    name = graph.origin(name, *UNPACKED)
    is_number = name in graph.constants and graph.elem_type(name) == FLOAT
    return name if name in graph.initializers and not is_number else None


def _fits(target: Target, pattern: str) -> bool:
    return any(fnmatchcase(name, pattern) for name in (target.weight, target.node.name))


def _unmatched(pattern: str, every: Sequence[Target]) -> str:
    fits = f'"{pattern}" fits no weight and no node of MatMul, Gemm or 1x1 Conv'
    if not every:
        return f"{fits}: the graph has none that could get an adapter; name weights to train whole"
    names = [target.weight for target in every]
    near = difflib.get_close_matches(pattern.strip("*"), names, n=5, cutoff=0.3) or names[:5]
    return f'{fits}; the nearest weights: {", ".join(near)}; "*" takes all of them'


def _too_small(target: Target, rank: int) -> str:
    smaller = min(target.columns, target.rows)
    return (
        f'"{target.weight}" is {target.columns} by {target.rows}, so the rank {rank} is above its'
        f" smaller side; give a rank of at most {smaller}, or leave the weight out of targets"
    )


def _is_half(target: Target) -> str:
    return (
        f'"{target.weight}" is multiplied in float16, and adapters compute in float32; export the '
        "product in float32, where a Cast may unpack the weight, or leave it out of targets"
    )
