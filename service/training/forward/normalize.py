"""The normal form of an upload: the same computation, self-contained and inlined."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import onnx
from onnx import inliner

from service.training.errors import refusal
from service.training.forward.graph import Graph, dtype_name, input_at, is_default
from service.training.forward.origins import keep, recorded
from service.training.forward.restore import restore
from service.training.forward.weights import is_named_by_pytorch
from service.training.graph.flow import needed_for, refill
from service.training.graph.node import attributes_of
from service.training.graph.passes.canonical import (
    convert,
    drop_listed_initializers,
    lift_constants,
    name_nodes,
    opset,
    stamp,
)
from service.training.graph.passes.folding import fold
from service.training.graph.passes.pads import all_pads
from service.training.graph.passes.simplify import keep_tensors
from service.training.graph.tensor import FLOATS
from storage.errors import Problem

OLDEST, NEWEST = 13, 21
"""Since 13, Softmax, ReduceSum, Squeeze and Split have their current form."""


def normalize(model: onnx.ModelProto, notes: list[str]) -> Graph:
    """Functions inlined, opset and IR within bounds, constants folded, parameters unchanged.

    Raises GraphRefused if the opset cannot be converted.
    """
    drop_listed_initializers(model)
    restore(model)
    told = recorded(model)
    if model.functions:
        model = inliner.inline_local_functions(model)
        notes.append("the model's local functions were inlined")
    version = opset(model)
    model = convert(model, OLDEST, NEWEST)
    if opset(model) != version:
        notes.append(f"opset {version} was converted to {opset(model)}")
    keep(model, told)
    del model.training_info[:]
    name_nodes(model)
    stamp(model)
    parameters = {name for name, is_parameter in told.items() if is_parameter}
    constants = (told.keys() - parameters) | lift_constants(model)
    numbers = [tensor.name for tensor in model.graph.initializer if not tensor.dims]
    scalars = {name for name in numbers if not told and is_named_by_pytorch(model, name)}
    constants |= fold(model, constants, keep=parameters | scalars)
    graph = Graph(model)
    graph.parameters, graph.constants = parameters, constants
    _pad_before_means(graph)
    _settle_scales(graph)
    spell_out(graph)
    return graph


def select_output(
    graph: Graph, output: str | None, notes: list[str], *, loss: str | None = None
) -> str:
    """Make the chosen tensor the only output and drop nodes that do not lead to it.

    output: the name of any float tensor, None for the only output of the graph. loss: a tensor that
    stays as a second output, since training minimizes it.
    Raises GraphRefused if one does not exist, or if there are several to choose from.
    """
    problems = [] if loss is None else [*_problems(graph, loss, "/spec/loss/output", "the loss")]
    others = [name for name in graph.outputs if name != loss]
    if output is None and len(others) == 1:
        output = others[0]
    if output is None and not problems:
        problems.append(Problem("/spec/output", _to_choose(others, has_loss=loss is not None)))
    elif output is not None:
        problems += _problems(graph, output, "/spec/output", "the logits for example")
        if output == loss:
            detail = f'"{output}" is the loss; name what apps are to get of the model'
            problems.append(Problem("/spec/output", detail))
    if output is None or problems:
        raise refusal(problems)
    keep_outputs(graph, [output] if loss is None else [output, loss], notes)
    return output


def _to_choose(outputs: Sequence[str], *, has_loss: bool) -> str:
    if has_loss and not outputs:
        return "the model has no output beside its loss; name the tensor that apps are to get"
    return (
        f"the model has {len(outputs)} outputs{' beside its loss' if has_loss else ''}; name the "
        f"one to train and measure as output: {', '.join(outputs)}"
    )


def _problems(graph: Graph, name: str, place: str, example: str) -> Iterator[Problem]:
    if graph.producer(name) is None:
        names = ", ".join(graph.outputs)
        yield Problem(place, f'no node of the graph makes "{name}"; the outputs are: {names}')
    kind = graph.elem_type(name)
    if any(v.name == name and not v.type.HasField("tensor_type") for v in graph.proto.output):
        yield Problem(place, f'"{name}" is no tensor; name a float32 tensor, {example}')
    if kind is not None and kind != onnx.TensorProto.FLOAT:
        other = "export after model.float(), or " if kind in FLOATS else ""
        detail = f'"{name}" is {dtype_name(kind)}; {other}name a float32 tensor, {example}'
        yield Problem(place, detail)


def keep_outputs(graph: Graph, outputs: Sequence[str], notes: list[str]) -> None:
    """Drop the other outputs, and nodes and inputs that lead to none of these."""
    kept, needed = needed_for(graph.proto.node, outputs)
    unread = [v.name for v in graph.inputs if v.name not in needed]
    if unread:
        shown = " and ".join(f'"{name}"' for name in outputs)
        verb = "does" if len(outputs) == 1 else "do"
        notes.append(f"inputs that {shown} {verb} not depend on were dropped: {', '.join(unread)}")
    declared = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, graph.dims(name))
        for name in outputs
    ]
    keep_tensors(graph.proto, needed)
    refill(graph.proto.input, [value for value in graph.inputs if value.name in needed])
    refill(graph.proto.output, declared)
    graph.set_nodes(kept)


def spell_out(graph: Graph) -> None:
    """Write the order of axes if it is left out, and Identity if no axis moves.

    1.19.2 fuses every Transpose next to a Gemm as if it swapped two axes, and reads the order next
    to a MatMul without checking whether it exists (measured). One whose input has an unknown rank
    is not changed.
    """
    replaced: dict[str, Sequence[onnx.NodeProto]] = {}
    for node in graph.proto.node:
        if not is_default(node, "Transpose"):
            continue
        perm = attributes_of(node).get("perm")
        order = perm or [*range(len(graph.dims(node.input[0]) or ()))][::-1]
        if order and order == sorted(order):
            replaced[node.name] = [_like(node, "Identity")]
        elif order and perm is None:
            replaced[node.name] = [_like(node, "Transpose")]
            replaced[node.name][0].attribute.append(onnx.helper.make_attribute("perm", order))
    graph.replace(replaced)


def _pad_before_means(graph: Graph) -> None:
    """Pad before each AveragePool that counts pads and has a ceiling, so that it need not count.

    1.19.2 divides also windows that the ceiling lets go beyond the pads by the whole kernel
    (measured). Where one might begin in the pads, and be left out, nothing is changed.
    """
    replaced = {}
    for node in graph.proto.node:
        options = attributes_of(node) if is_default(node, "AveragePool") else {}
        if not options.get("ceil_mode") or not options.pop("count_include_pad", 0):
            continue
        kernel = options["kernel_shape"]
        rank = len(kernel)
        pads = options.pop("pads", [0] * (2 * rank))
        sizes = zip(kernel, pads[rank:], options.get("strides", [1] * rank), strict=True)
        if all(size - after >= stride for size, after, stride in sizes):
            full = np.array(all_pads(pads, range(2, 2 + rank), 2 + rank), np.int64)
            read = [node.input[0], graph.add_initializer(f"{node.name}:pads", full)]
            pad = onnx.helper.make_node("Pad", read, [graph.fresh(f"{node.name}:padded")], read[1])
            mean = onnx.helper.make_node("AveragePool", pad.output, node.output, node.name)
            mean.attribute.extend(onnx.helper.make_attribute(*each) for each in options.items())
            replaced[node.name] = [pad, mean]
    graph.replace(replaced)


def _settle_scales(graph: Graph) -> None:
    """Raise by a bit each scale of a Resize that the runtime and ONNX take for two sizes.

    14 · 9/14 is 9 in the runtime's float32, and 8 in the float64 of shape inference.
    """
    for node in graph.proto.node:
        scales = graph.array(input_at(node, 2)) if is_default(node, "Resize") else None
        sizes = np.array(graph.dims(node.input[0]) if node.input else (), np.float64)
        if scales is not None and scales.shape == sizes.shape:
            exact, single = scales.astype(np.float64), scales.astype(np.float32)
            apart = np.floor(sizes * exact) < np.floor(sizes.astype(np.float32) * single)
            if apart.any():
                raised = np.where(apart, np.nextafter(single, np.float32(np.inf)), single)
                node.input[2] = graph.add_initializer(f"{node.name}:scales", raised)
                graph.refresh()  # a later one may read the size


def _like(node: onnx.NodeProto, op_type: str) -> onnx.NodeProto:
    return onnx.helper.make_node(op_type, node.input, node.output, name=node.name)
