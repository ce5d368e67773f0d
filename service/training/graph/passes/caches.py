"""Takes cached keys and values out of a decoder, as training runs each text from its beginning.

Exporters name the inputs `past_key_values.N.key` and the outputs `present.N.key`, and the same of
`value`; the layers join the past with the new ones by a Concat along the third axis.
"""

from __future__ import annotations

import re

import numpy as np
import onnx
from onnx import helper, numpy_helper

from service.completion.messages import AXIS, PAST, RANK
from service.training.graph.flow import add_ints, count_rows, refill

PRESENT = re.compile(r"present\.\d+\.(?:key|value)")
MARK = "hone/past"
ROWS = f"{MARK}/rows"
"""The number of texts."""
NOTE = (
    "its cached keys and values are left out of training, and of versions' files; completion uses "
    "them, from the uploaded graph with a version's weights"
)


def drop_caches(model: onnx.ModelProto) -> None:
    """Leave inputs of the past and outputs of the present out. model: perhaps no valid one."""
    graph = model.graph
    past = [value for value in graph.input if PAST.fullmatch(value.name)]
    fed = [value for value in graph.input if not PAST.fullmatch(value.name)]
    if not past or not fed:
        return
    refill(graph.input, fed)
    refill(graph.output, [value for value in graph.output if not PRESENT.fullmatch(value.name)])
    names = {value.name for value in past}
    for node in graph.node:
        if node.op_type == "Concat" and names.intersection(node.input):
            _join_nothing(node, names)
    read = {name for node in graph.node for name in node.input}
    nodes = count_rows(graph, fed[0].name, ROWS)
    for value in past:
        if value.name in read:
            nodes += _nothing(graph, value)
    nodes += graph.node
    refill(graph.node, nodes)


def has_dropped(model: onnx.ModelProto) -> bool:
    """Whether caches were taken out of this model."""
    return any(node.name.startswith(MARK) for node in model.graph.node)


def _join_nothing(node: onnx.NodeProto, past: set[str]) -> None:
    axis = next((attribute.i for attribute in node.attribute if attribute.name == "axis"), 0)
    others = [name for name in node.input if name not in past]
    if axis not in (AXIS, AXIS - RANK) or not others:
        return
    node.input[:] = others
    if len(others) == 1:
        node.op_type = "Identity"
        del node.attribute[:]


def _nothing(graph: onnx.GraphProto, value: onnx.ValueInfoProto) -> list[onnx.NodeProto]:
    """Makes a past of no positions, for what else reads its shape."""
    kind = value.type.tensor_type
    sizes = [dim.dim_value for dim in kind.shape.dim]
    name = f"{MARK}/{value.name}"
    rest = add_ints(graph, f"{name}/sizes", *sizes[1:AXIS], 0, *sizes[AXIS + 1 :])
    dtype = helper.tensor_dtype_to_np_dtype(kind.elem_type)
    zero = numpy_helper.from_array(np.zeros(1, dtype))
    return [
        helper.make_node("Concat", [ROWS, rest], [f"{name}/shape"], f"{name}/shape", axis=0),
        helper.make_node("ConstantOfShape", [f"{name}/shape"], [value.name], name, value=zero),
    ]
