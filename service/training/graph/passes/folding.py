"""Evaluates the parts of a graph that depend only on constants: pads, shapes and indices."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import onnx
from onnx import numpy_helper

from service.training.graph.builder import RANDOM, STANDARD
from service.training.graph.flow import reads, refill, subgraphs

MAX_BYTES = 1 << 16
"""Larger results are not folded: they are tables, not numbers."""
_WEIGHTS = (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16)
"""Types of parameters that are not packed; DequantizeLinear unpacks the others."""


def fold(
    model: onnx.ModelProto, constants: Collection[str] = (), *, keep: Collection[str] = ()
) -> set[str]:
    """Replace nodes that depend only on constants by their results; returns the results' names.

    Float initializers of rank 1 or more may be parameters, and are constants only if named so.
    keep: never constants, whatever their rank.
    """
    values = {
        t.name: t
        for t in model.graph.initializer
        if t.name not in keep and (t.name in constants or t.data_type not in _WEIGHTS or not t.dims)
    }
    folded: set[str] = set()
    ends = {value.name for value in model.graph.output}
    kept: list[onnx.NodeProto] = []
    for node in model.graph.node:
        result = None if ends.intersection(node.output) else _value(model, node, values)
        if result is None:
            kept.append(node)
        else:
            values.update((t.name, t) for t in result)
            folded.update(t.name for t in result)
            model.graph.initializer.extend(result)
    refill(model.graph.node, kept)
    return folded


def _value(
    model: onnx.ModelProto, node: onnx.NodeProto, values: dict[str, onnx.TensorProto]
) -> list[onnx.TensorProto] | None:
    """The node's result, None if it is not constant or too large."""
    foreign = node.domain not in STANDARD or node.op_type in (*RANDOM, "DequantizeLinear")
    if (
        not node.input
        or foreign
        or any(subgraphs(node))
        or not all(name in values for name in reads(node))
    ):
        return None
    part = onnx.helper.make_model(
        onnx.helper.make_graph([node], "part", [], [], [values[name] for name in reads(node)]),
        opset_imports=model.opset_import,
    )
    # Imported late: it loads the code of every operator, and few models compute from constants.
    from onnx.reference import ReferenceEvaluator

    names = [name for name in node.output if name]
    part.graph.output.extend(onnx.helper.make_empty_tensor_value_info(name) for name in names)
    try:
        with np.errstate(all="ignore"):  # An exporter may look up log(0).
            arrays = [np.asarray(value) for value in ReferenceEvaluator(part).run(None, {})]
    except (AttributeError, IndexError, RuntimeError, TypeError, ValueError):
        return None  # The engine reports the error when it loads the graph.
    if any(value.nbytes > MAX_BYTES or value.dtype == object for value in arrays):
        return None
    return [numpy_helper.from_array(v, n) for n, v in zip(names, arrays, strict=True)]
