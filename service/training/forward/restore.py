"""Restores parameters that exporters merged, left out or copied.

Initializers that are equal at export become one, even a fresh bias and a running mean, and a bias
of zeros is dropped. In training, each would have changed separately. A parameter that is read both
directly and transposed becomes two, which would diverge.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection

import numpy as np
import onnx
from onnx import helper, numpy_helper

from service.training.forward.origins import Origins
from service.training.graph.flow import refill

_WITH_BIAS = {"Conv": 0, "ConvTranspose": 1, "Gemm": 1}
"""Operator → the axis of its weight that has the length of its bias."""

_COMPUTED = ("onnx::", "val_")
"""Prefixes of the exporters, TorchScript's and dynamo's, for values computed from parameters."""
_IN_ORDER = (*_WITH_BIAS, "BatchNormalization", "InstanceNormalization", "LayerNormalization")
"""Operators that read learned values after their first input, in the order of the calls."""


def restore(model: onnx.ModelProto) -> None:
    """Split merged parameters, restore biases of zeros, tie copied ones; versions are restored."""
    origins = Origins(model)
    if origins.are_kept:
        return
    if origins.parameters:
        _split_merged(model, origins)
        _write_biases(model, origins)
    _split_copies(model)
    _tie_transposed(model, origins)
    if model.producer_name == "tf2onnx":
        _fix_second_biases(model)


def _split_merged(model: onnx.ModelProto, origins: Origins) -> None:
    """Split an initializer if a call names another parameter than the one that its node reads."""
    tensors = {tensor.name: tensor for tensor in model.graph.initializer}
    values = {value.name: value for value in model.graph.value_info}
    reads = Counter(name for node in model.graph.node for name in node.input)
    known = _names(model.graph)
    copied: set[str] = set()
    for node in model.graph.node:
        arguments = origins.arguments(node)
        for index, name in enumerate(node.input):
            if name not in tensors or reads[name] < 2 or name in copied:
                continue
            if tensors[name].data_type != onnx.TensorProto.FLOAT:
                continue
            meant = _meant(origins, node, index, arguments, known=known)
            if meant is None:
                continue
            if meant not in copied:
                copied.add(meant)
                tensor = model.graph.initializer.add()
                tensor.CopyFrom(tensors[name])
                tensor.name = meant
                if name in values and meant not in origins.parameters | origins.buffers:
                    value = model.graph.value_info.add()
                    value.CopyFrom(values[name])
                    value.name = meant
            node.input[index] = meant


def _meant(
    origins: Origins,
    node: onnx.NodeProto,
    index: int,
    arguments: list[str],
    *,
    known: Collection[str],
) -> str | None:
    """The parameter or buffer that the call took and the graph lacks; None if it reads its own."""
    name = node.input[index]
    sources = origins.sources(name)
    missing = [argument for argument in arguments if argument not in known]
    held = [argument for argument in arguments if argument in origins.parameters | origins.buffers]
    in_order = node.op_type in _IN_ORDER and len(held) + 1 == len(node.input)
    if in_order and index and name in held and held[index - 1] in missing:
        return held[index - 1]  # The node reads another one of its own parameters here.
    if not sources.isdisjoint(arguments):
        return None
    if not origins.is_parameter(name) and name not in origins.buffers:
        return None  # A constant of the program, such as the ones inside a GroupNorm.
    if in_order:
        return held[index - 1] if index and held[index - 1] in missing else None
    lasts = {source.rpartition(".")[2] for source in sources}
    alike = [other for other in missing if other.rpartition(".")[2] in lasts]
    chosen = alike or missing
    return chosen[0] if chosen else None


def _write_biases(model: onnx.ModelProto, origins: Origins) -> None:
    tensors = {tensor.name: tensor for tensor in model.graph.initializer}
    known = _names(model.graph)
    for node in model.graph.node:
        weight = tensors.get(node.input[1]) if len(node.input) == 2 else None
        if weight is None or node.op_type not in _WITH_BIAS:
            continue
        missing = [
            argument
            for argument in origins.arguments(node)
            if argument in origins.parameters and argument not in known
        ]
        if missing:
            size = _bias_size(node, weight)
            zeros = np.zeros(size, helper.tensor_dtype_to_np_dtype(weight.data_type))
            model.graph.initializer.append(numpy_helper.from_array(zeros, missing[-1]))
            node.input.append(missing[-1])
            known.add(missing[-1])


def _bias_size(node: onnx.NodeProto, weight: onnx.TensorProto) -> int:
    flags = {attribute.name: attribute.i for attribute in node.attribute}
    if node.op_type == "Gemm" and flags.get("transB"):
        return int(weight.dims[0])
    groups = flags.get("group", 1) if node.op_type == "ConvTranspose" else 1
    return int(weight.dims[_WITH_BIAS[node.op_type]] * groups)


def _split_copies(model: onnx.ModelProto) -> None:
    """Replace Identities that TorchScript's exporter writes for equal initializers with copies.

    Tensors of differing values stay tied, as the author may have tied them, unless they are read in
    modules whose names differ only by a number: copied layers, as in nn.TransformerEncoder.
    """
    tensors = {tensor.name: tensor for tensor in model.graph.initializer}
    ends = {value.name for value in model.graph.output}
    scopes = _scopes(model.graph)
    split: set[str] = set()
    for node in model.graph.node:
        tensor = tensors.get(node.input[0]) if node.op_type == "Identity" else None
        if tensor is None or node.output[0] in ends:
            continue
        both = scopes.get(node.input[0], ""), scopes.get(node.output[0], "")
        if _is_uniform(tensor) or _are_copies(*both):
            copy = model.graph.initializer.add()
            copy.CopyFrom(tensor)
            copy.name = node.output[0]
            split.add(copy.name)
    refill(model.graph.node, [n for n in model.graph.node if split.isdisjoint(n.output)])


def _is_uniform(tensor: onnx.TensorProto) -> bool:
    value = numpy_helper.to_array(tensor)
    return bool(value.size) and bool(np.all(value == value.flat[0]))


def _scopes(graph: onnx.GraphProto) -> dict[str, str]:
    """Tensor → the module in which it is first read, as the exporter names its nodes."""
    scopes: dict[str, str] = {}
    for node in graph.node:
        if node.op_type != "Identity":
            for name in node.input:
                scopes.setdefault(name, node.name.rpartition("/")[0])
    return scopes


def _are_copies(first: str, second: str) -> bool:
    unnumbered = [re.sub(r"\d+", "#", scope) for scope in (first, second)]
    return first != second and unnumbered[0] == unnumbered[1]


def _tie_transposed(model: onnx.ModelProto, origins: Origins) -> None:
    """Replace each matrix that is a transposed copy of another one by a Transpose."""
    matrices = [
        (tensor.name, numpy_helper.to_array(tensor))
        for tensor in model.graph.initializer
        if len(tensor.dims) == 2 and tensor.data_type == onnx.TensorProto.FLOAT
    ]
    tied: dict[str, onnx.NodeProto] = {}
    for place, (name, values) in enumerate(matrices):
        for source, others in matrices[:place]:
            if (
                source not in tied
                and _are_one(source, name, origins)
                and others.shape == values.shape[::-1]
                and np.array_equal(values, others.T)
            ):
                tied[name] = helper.make_node("Transpose", [source], [name], name=name, perm=[1, 0])
    if tied:
        refill(model.graph.node, [*tied.values(), *model.graph.node])
        refill(model.graph.initializer, [t for t in model.graph.initializer if t.name not in tied])


def _fix_second_biases(model: onnx.ModelProto) -> None:
    """Keras' LSTM has one bias, and GRU without reset_after; tf2onnx writes zeros for a second."""
    tensors = {tensor.name: tensor for tensor in model.graph.initializer}
    written: list[onnx.NodeProto] = []
    for node in model.graph.node:
        tensor = tensors.get(node.input[3]) if _has_one_bias(node) else None
        if tensor is None:
            continue
        first, second = np.split(numpy_helper.to_array(tensor), 2, axis=1)
        if second.any():
            continue
        zeros, node.input[3] = f"{tensor.name}:second", f"{tensor.name}:both"
        tensor.CopyFrom(numpy_helper.from_array(first, tensor.name))
        value = numpy_helper.from_array(second)
        written.append(helper.make_node("Constant", [], [zeros], value=value))
        written.append(helper.make_node("Concat", [tensor.name, zeros], [node.input[3]], axis=1))
    refill(model.graph.node, [*written, *model.graph.node])


def _has_one_bias(node: onnx.NodeProto) -> bool:
    resets = any(each.name == "linear_before_reset" and each.i for each in node.attribute)
    return node.op_type in ("LSTM", "GRU") and not resets and len(node.input) > 3


def _are_one(source: str, name: str, origins: Origins) -> bool:
    """Were both one parameter in the program?"""
    if origins.parameters:
        common = origins.sources(source) & origins.sources(name)
        return not common.isdisjoint(origins.parameters)
    return name.startswith(_COMPUTED) and not source.startswith(_COMPUTED)


def _names(graph: onnx.GraphProto) -> set[str]:
    """All names in the graph."""
    held = (*graph.initializer, *graph.input)
    return {value.name for value in held} | {name for node in graph.node for name in node.output}
