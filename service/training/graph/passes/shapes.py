"""Propagates sizes through a graph further than ONNX's inference: past a symbolic batch axis.

Exporters compute a Reshape's target from pieces of shapes. A known piece becomes a constant, and a
Reshape whose only unknown size is the batch gets a constant target.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import numpy as np
import onnx
from onnx import helper, numpy_helper, shape_inference

from service.training.graph.builder import STANDARD
from service.training.graph.flow import add_ints, refill, subgraphs
from service.training.graph.node import attributes_of
from service.training.graph.passes.folding import fold
from service.training.graph.passes.inference import infer
from service.training.graph.tensor import Array, Dim, Shape
from service.training.graph.types import infer_outputs, type_of

Types = dict[str, tuple[int, "Shape | None"]]
"""Element type and shape by name."""
SMALL = 64
"""Larger constants are not shapes."""


def fold_shapes(model: onnx.ModelProto, keep: Collection[str] = ()) -> None:
    """Replace known sizes by numbers, and store the inferred types in the graph.

    keep: initializers that are not constants of the program.
    """
    graph = model.graph
    weak = infer(model).graph
    types: Types = {t.name: (t.data_type, tuple(t.dims)) for t in graph.initializer}
    guessed = {v.name: type_of(v.type) for v in (*weak.input, *weak.value_info, *weak.output)}
    types.update((v.name, guessed[v.name]) for v in graph.input)
    constants = {t.name: t for t in graph.initializer if np.prod(t.dims) <= SMALL}
    vectors = {name: t for name, t in constants.items() if len(t.dims) < 2}
    sizes = {name: numpy_helper.to_array(t).astype(object) for name, t in vectors.items()}
    kept: list[onnx.NodeProto] = []
    for node in graph.node:
        _infer(model, node, types, guessed, constants)
        numbers = _sizes(node, types, sizes)
        if numbers is not None:
            sizes[node.output[0]] = numbers
        if numbers is not None and all(isinstance(size, int) for size in numbers.flat):
            kind = helper.tensor_dtype_to_np_dtype(types[node.output[0]][0])
            value = numpy_helper.from_array(numbers.astype(kind), node.output[0])
            constants[value.name] = value
            graph.initializer.append(value)
            continue
        _follow(node, types, sizes, graph)
        kept.append(node)
    _take_over(graph, kept, types)
    fold(model, keep=keep)


def _take_over(graph: onnx.GraphProto, nodes: list[onnx.NodeProto], types: Types) -> None:
    refill(graph.node, nodes)
    del graph.value_info[:]
    ends = {value.name: value for value in graph.output}
    for name in dict.fromkeys(name for node in nodes for name in node.output):
        if name and types[name][0]:
            info = helper.make_tensor_value_info(name, *types[name])
            if name in ends:
                ends[name].CopyFrom(info)
            else:
                graph.value_info.append(info)


def _infer(
    model: onnx.ModelProto,
    node: onnx.NodeProto,
    types: Types,
    guessed: Types,
    constants: dict[str, onnx.TensorProto],
) -> None:
    """The types of a node's outputs, from those of its inputs and from guesses."""
    for name in filter(None, node.output):
        types[name] = guessed.get(name, (0, None))
    known = all(types[name][0] for name in node.input if name)
    if node.domain not in STANDARD or any(subgraphs(node)) or not known:
        return
    version = next(o for o in model.opset_import if o.domain in STANDARD).version
    try:
        kinds = infer_outputs(node, version, types, constants)
    except (shape_inference.InferenceError, onnx.checker.ValidationError):
        return  # The engine reports the error when it loads the graph.
    for name, (kind, shape) in zip(node.output, kinds, strict=True):
        if name and kind:
            types[name] = kind, _better(shape, types[name][1])


def _better(a: Shape | None, b: Shape | None) -> Shape | None:
    """For each axis the more precise of both: a number, a name, nothing."""
    if a is None or b is None or len(a) != len(b):
        return b if a is None else a
    return tuple(min((x, y), key=_vagueness) for x, y in zip(a, b, strict=True))


def _vagueness(dim: Dim) -> int:
    if isinstance(dim, int):
        return 0
    return 3 if dim is None else 2 if dim.startswith("unk__") else 1


def _sizes(node: onnx.NodeProto, types: Types, sizes: dict[str, Array]) -> Array | None:
    """The sizes that a node computes, None for other values."""
    attributes = attributes_of(node)
    if node.op_type == "Shape":
        shape = types[node.input[0]][1]
        if shape is None:
            return None
        part = shape[attributes.get("start", 0) : attributes.get("end")]
        return np.array([*part, None], object)[:-1]
    if node.op_type not in READERS or not all(name in sizes for name in node.input):
        return None
    if types[node.output[0]][0] not in (onnx.TensorProto.INT64, onnx.TensorProto.INT32):
        return None
    return READERS[node.op_type](*(sizes[name] for name in node.input))


def _slice(part: Array, start: Array, end: Array, *others: Array) -> Array:
    step = int(others[1][0]) if len(others) > 1 else 1
    return part[int(start[0]) : int(end[0]) : step]


def _of_numbers(function: Callable[[int, int], int], a: Array, b: Array) -> Array:
    """None if either is not a number."""
    pairs = zip(*(part.ravel() for part in np.broadcast_arrays(a, b)), strict=True)
    numbers = [
        function(x, y) if isinstance(x, int) and isinstance(y, int) else None for x, y in pairs
    ]
    return np.array([*numbers, None], object)[:-1].reshape(np.broadcast(a, b).shape)


READERS: dict[str, Callable[..., Array]] = {
    "Add": lambda a, b: _of_numbers(int.__add__, a, b),
    "Cast": lambda part: part,
    "Concat": lambda *parts: np.concatenate(parts),
    "Div": lambda a, b: _of_numbers(int.__floordiv__, a, b),
    "Gather": lambda part, index: np.asarray(part[index.astype(int)], object),
    "Mul": lambda a, b: _of_numbers(int.__mul__, a, b),
    "Slice": _slice,
    "Squeeze": lambda part, *_: part.reshape(()) if part.size == 1 else part,
    "Sub": lambda a, b: _of_numbers(int.__sub__, a, b),
    "Unsqueeze": lambda part, *_: part.reshape(1) if part.ndim == 0 else part,
}


def _follow(
    node: onnx.NodeProto, types: Types, sizes: dict[str, Array], graph: onnx.GraphProto
) -> None:
    """Apply what a computed target implies for the result's shape."""
    at = {"Reshape": 1, "Expand": 1, "ConstantOfShape": 0, "Resize": 3}.get(node.op_type)
    if at is None or len(node.input) <= at or node.input[at] not in sizes:
        return
    kind, shape = types[node.output[0]]
    target: Shape = tuple(sizes[node.input[at]].tolist())
    if node.op_type == "Resize" and shape is not None and len(target) != len(shape):
        return  # It names the sizes of some axes.
    if node.op_type == "Expand" and 1 in target:
        return  # Broadcast in both directions: inference knows that better.
    if node.op_type == "Reshape":
        whole = _whole_target(types[node.input[0]][1], target)
        if whole is None:
            return
        target = whole
        name = f"{node.name}:target"
        unknown = sum(not isinstance(size, int) for size in whole)
        if unknown == 1 and node.input[1] != name:
            numbers = [size if isinstance(size, int) else -1 for size in whole]
            node.input[1] = add_ints(graph, name, *numbers)
    types[node.output[0]] = kind, _better(target, shape)


def _whole_target(source: Shape | None, target: Shape) -> Shape | None:
    """A Reshape's target without 0 and -1; None if unknown.

    The symbols of both sides cancel out, and what remains are numbers.
    """
    if source is None or None in source or None in target or 0 in source:
        return None
    named = [source[i] if size == 0 and i < len(source) else size for i, size in enumerate(target)]
    if -1 not in named:
        return tuple(named)
    symbols = [d for d in source if isinstance(d, str)]
    for size in named:
        if isinstance(size, str):
            if size not in symbols:
                return None
            symbols.remove(size)
    numbers = [int(np.prod([d for d in part if isinstance(d, int)])) for part in (source, named)]
    rest, left = divmod(numbers[0], -numbers[1])
    if left or len(symbols) > 1 or (symbols and rest != 1):
        return None
    return tuple((symbols[0] if symbols else rest) if size == -1 else size for size in named)
