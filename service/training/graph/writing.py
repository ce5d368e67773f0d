"""A built graph as a model, in the form that runtimes run fastest."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from types import MappingProxyType

import onnx
from onnx import helper

from service.training.graph.blocks.layout import DOMAIN
from service.training.graph.builder import Builder
from service.training.graph.flow import duplicate, in_order
from service.training.graph.passes.accumulation import accumulate
from service.training.graph.passes.branches import rename
from service.training.graph.passes.canonical import stamp
from service.training.graph.passes.simplify import prune
from service.training.graph.passes.weights_first import put_weights_first, unpack_late
from service.training.graph.running_sums import SAME_NUMBERS, before_reshapes
from service.training.graph.tensor import Tensor


def write(
    graph: Builder,
    origin: onnx.ModelProto,
    *,
    inputs: Iterable[str],
    outputs: dict[str, Tensor],
    frozen: Iterable[str] = (),
    read_as: Mapping[str, str] = MappingProxyType({}),
) -> onnx.ModelProto:
    """The graph as a model with these inputs and outputs, without unused nodes.

    frozen: initializers that also become inputs. read_as: other tensors to read in place of some.
    `value_info` has the shapes that outputs have before they are reshaped, if these are known.
    """
    fed = list(inputs)
    inputs = [*fed, *frozen]
    names = [tensor.name for tensor in outputs.values()]
    copies = _copies(graph, inputs, read_as)
    zeros = [name for name in graph.constants if _is_zero(graph.tensor(name))]
    nodes = accumulate(copies, lambda name: graph.tensor(name).shape, names, zeros=zeros)
    nodes = list(put_weights_first(graph, nodes, fed))
    if len(inputs) > len(fed):
        nodes = unpack_late(nodes, fed)
    made = {name for node in nodes for name in node.output}
    firsts = dict.fromkeys(before_reshapes(nodes, names).values())
    reshaped = [graph.tensor(name) for name in firsts if name in made and name not in names]
    renamed = _named(nodes, outputs)
    constants = [t for name, t in graph.constants.items() if name not in inputs]
    body = helper.make_graph(
        nodes,
        origin.graph.name or "step",
        [_value(name, graph.tensor(name)) for name in inputs],
        [_value(name, tensor) for name, tensor in outputs.items()],
        constants,
        value_info=[_value(tensor.name, tensor) for tensor in reshaped if tensor.sizes],
    )
    for node in body.node:
        rename(node, renamed)
    prune(body, outputs)
    model = helper.make_model(
        body, opset_imports=[*origin.opset_import, helper.make_opsetid(DOMAIN, 1)]
    )
    model.ir_version = origin.ir_version
    stamp(model)
    return model


def _copies(
    graph: Builder, inputs: Container[str], read_as: Mapping[str, str]
) -> list[onnx.NodeProto]:
    """Of the nodes that make no input, in order; what is reshaped was not reshaped before."""
    copies = [duplicate(node) for node in graph.nodes if node.output[0] not in inputs]
    for node in copies if read_as else ():
        rename(node, read_as)
    copies = in_order(copies)
    _join_reshapes(graph, copies)
    return copies


def _join_reshapes(graph: Builder, nodes: Iterable[onnx.NodeProto]) -> None:
    """Reshape what was reshaped before: the runtime keeps some kilobytes for each node."""
    before: dict[str, onnx.NodeProto] = {}
    for node in nodes:
        if node.op_type not in SAME_NUMBERS:
            continue
        first, shape = before.get(node.input[0]), graph.tensor(node.output[0]).shape or (None, None)
        sizes = [size if isinstance(size, int) else -1 for size in shape]
        if first is not None and 0 not in sizes and sizes.count(-1) < 2:
            joined = helper.make_node(
                "Reshape", [first.input[0], graph.ints(sizes).name], node.output, node.name
            )
            node.CopyFrom(joined)
        before[node.output[0]] = node


def _named(nodes: list[onnx.NodeProto], outputs: dict[str, Tensor]) -> dict[str, str]:
    """New names of tensors that become outputs; one that cannot be renamed passes an Identity."""
    made = {name for node in nodes for name in node.output}
    names = [tensor.name for tensor in outputs.values()]
    renamed: dict[str, str] = {}
    for name, tensor in outputs.items():
        assert name == tensor.name or name not in made, f'the graph has a tensor "{name}" already'
        if tensor.name in made and names.count(tensor.name) == 1:
            renamed[tensor.name] = name
        elif name != tensor.name:
            nodes.append(helper.make_node("Identity", [tensor.name], [name], name=name))
    return renamed


def _is_zero(tensor: Tensor) -> bool:
    value = tensor.value
    return value is not None and value.size == 1 and not value.any()


def _value(name: str, tensor: Tensor) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, tensor.dtype, tensor.shape)
