"""Finds samples whose token ids are outside their table.

The engine fails a batch with such a sample without saying which one it is. So before training, the
ids are checked against their tables here, by a small model of integer operators only.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np
import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from msgspec import Struct
from numpy.typing import NDArray

from service.training.engine import Array
from service.training.engines.runtime import LOAD_ERRORS, onnxruntime, open_session

logger = logging.getLogger(__name__)

FAULTS = (*LOAD_ERRORS, ValueError)
PLUMBING = (
    *("Add", "Sub", "Mul", "Mod", "Min", "Max", "Clip", "Cast", "Identity"),
    *("Concat", "Split", "Slice", "Gather", "Expand", "Tile", "Transpose"),
    *("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Shape", "Constant", "ConstantOfShape"),
    *("Equal", "Greater", "Less", "Not", "Where"),
)
"""Operators that exporters put between an input and its table; they cost next to nothing."""


class Lookup(Struct, frozen=True):
    """One Gather. ids: the tensor of row indices. maker: computes it, None for an input."""

    node: str
    table_rows: int
    ids: str
    inputs: tuple[str, ...]
    maker: onnxruntime.InferenceSession | None

    def wrong(self, fed: dict[str, Array]) -> int | None:
        """A row index that is outside the table. fed: inputs by name, batch axis first.

        Raises one of FAULTS if the model was made for another batch size.
        """
        if self.maker is None:
            result = fed[self.ids]
        else:
            result = self.maker.run(None, {name: fed[name] for name in self.inputs})[0]
        ids: NDArray[np.int64] = np.asarray(result, np.int64)
        outside = ids[(ids < -self.table_rows) | (ids >= self.table_rows)]
        return int(outside[0]) if len(outside) else None


class Lookups:
    """The lookups of some models by these inputs. Falsy if there are none.

    paths: ONNX files that take some of the inputs; one that cannot be read has no lookups.
    """

    def __init__(self, paths: Sequence[Path], names: Sequence[str]) -> None:
        self._names = names
        self._lookups = [lookup for path in paths for lookup in _lookups(path, set(names))]

    def __bool__(self) -> bool:
        return bool(self._lookups)

    def complaints(self, inputs: Sequence[Array]) -> dict[int, str]:
        """What is wrong, by position in the batch. inputs: by position, batch axis first."""
        wrong: dict[int, str] = {}
        for lookup in list(self._lookups):
            left = [row for row in range(len(inputs[0])) if row not in wrong]
            try:
                if left and lookup.wrong(self._fed(inputs, left)) is not None:
                    wrong |= self._each(lookup, inputs, left)
            except FAULTS as error:
                self._lookups.remove(lookup)
                logger.warning("lookup_not_checked node=%s error=%s", lookup.node, error)
        return wrong

    def _each(self, lookup: Lookup, inputs: Sequence[Array], rows: list[int]) -> dict[int, str]:
        values = {row: lookup.wrong(self._fed(inputs, [row])) for row in rows}
        return {
            row: _complaint(lookup, value) for row, value in values.items() if value is not None
        }

    def _fed(self, inputs: Sequence[Array], rows: list[int]) -> dict[str, Array]:
        whole = len(rows) == len(inputs[0])
        return {
            name: array if whole else array[rows]
            for name, array in zip(self._names, inputs, strict=True)
        }


def _complaint(lookup: Lookup, value: int) -> str:
    return (
        f"it asks for row {value} of a table that has {lookup.table_rows} (node {lookup.node!r});"
        f" send token ids from 0 to {lookup.table_rows - 1}"
    )


def _lookups(path: Path, names: Collection[str]) -> list[Lookup]:
    try:
        model = onnx.load_model(path, load_external_data=False)
    except DecodeError:
        return []  # in ONNX Runtime's own format
    graph = model.graph
    del graph.sparse_initializer[:], graph.quantization_annotation[:]  # onnx cuts none with these
    shapes = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    for value in (*graph.input, *graph.value_info):
        shapes.setdefault(value.name, tuple(d.dim_value for d in value.type.tensor_type.shape.dim))
    lookups = []
    for node in graph.node:
        if node.op_type != "Gather" or node.domain not in ("", "ai.onnx"):
            continue
        table, ids = node.input
        shape = shapes.get(table, ())
        axis = next((attribute.i for attribute in node.attribute if attribute.name == "axis"), 0)
        rows = shape[axis] if -len(shape) <= axis < len(shape) else 0
        name = node.name or node.output[0]
        if rows and (lookup := _lookup(model, name, rows, ids=ids, names=names)) is not None:
            lookups.append(lookup)
    return lookups


def _lookup(
    model: onnx.ModelProto, node: str, rows: int, *, ids: str, names: Collection[str]
) -> Lookup | None:
    """None if the ids do not come from these inputs, or through more than PLUMBING."""
    inputs = {value.name for value in model.graph.input}
    if ids in names and ids in inputs:
        return Lookup(node, rows, ids, (ids,), None)
    needed = _needed(model.graph, ids, names)
    if needed is None or needed.isdisjoint(names):
        return None
    fed = tuple(needed & set(names))
    model.graph.value_info.append(onnx.helper.make_empty_tensor_value_info(ids))
    part = onnx.utils.Extractor(model).extract_model([*fed], [ids])
    try:
        maker = open_session(part.SerializeToString(), threads=1, arena=False)
    except LOAD_ERRORS as error:
        logger.warning("lookup_not_checked node=%s error=%s", node, error)
        return None
    return Lookup(node, rows, ids, fed, maker)


def _needed(graph: onnx.GraphProto, wanted: str, names: Collection[str]) -> set[str] | None:
    """The tensors on the way to `wanted`; None if any other operator than PLUMBING makes them."""
    makers = {name: node for node in graph.node for name in node.output}
    constants = {tensor.name for tensor in graph.initializer}
    needed, pending = set[str](), [wanted]
    while pending:
        name = pending.pop()
        if name in needed or not name:
            continue
        needed.add(name)
        if name in makers and makers[name].op_type in PLUMBING:
            pending.extend(makers[name].input)
        elif name not in constants and name not in names:
            return None
    return needed
