"""Computes what a graph computes from numbers alone: pads, shapes and indices."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

from service.training.graph.builder import RANDOM
from service.training.graph.flow import duplicate, reads, subgraphs

MAX_BYTES = 1 << 16
"""Larger results stay computed: they are tables, not numbers."""


def fold(model: onnx.ModelProto) -> None:
    """Replace nodes that depend on constants alone by their results.

    Float initializers of rank 1 or more are parameters, and not constants, if the graph had them
    as initializers; those that came as Constant nodes are in the same place, and stay computed.
    """
    values = {t.name: t for t in model.graph.initializer if _is_number(t)}
    ends = {value.name for value in model.graph.output}
    kept: list[onnx.NodeProto] = []
    for node in model.graph.node:
        result = None if ends.intersection(node.output) else _value(model, node, values)
        if result is None:
            kept.append(duplicate(node))
        else:
            values.update((t.name, t) for t in result)
            model.graph.initializer.extend(result)
    del model.graph.node[:]
    model.graph.node.extend(kept)


def _is_number(tensor: onnx.TensorProto) -> bool:
    return tensor.data_type != onnx.TensorProto.FLOAT or not tensor.dims


def _value(
    model: onnx.ModelProto, node: onnx.NodeProto, values: dict[str, onnx.TensorProto]
) -> list[onnx.TensorProto] | None:
    """What the node gives, None if it is not a constant or too large."""
    foreign = node.domain not in ("", "ai.onnx") or node.op_type in RANDOM
    if foreign or any(subgraphs(node)) or not all(name in values for name in reads(node)):
        return None
    part = onnx.helper.make_model(
        onnx.helper.make_graph([node], "part", [], [], [values[name] for name in reads(node)]),
        opset_imports=model.opset_import,
    )
    names = [name for name in node.output if name]
    part.graph.output.extend(onnx.helper.make_empty_tensor_value_info(name) for name in names)
    with np.errstate(all="ignore"):  # An exporter may look up log(0).
        found = [np.asarray(value) for value in ReferenceEvaluator(part).run(None, {})]
    if any(value.nbytes > MAX_BYTES or value.dtype == object for value in found):
        return None
    return [numpy_helper.from_array(v, n) for n, v in zip(names, found, strict=True)]
