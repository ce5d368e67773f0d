"""Rewrites pads of some axes as pads of all axes, and those before a convolution as its own.

ONNX Runtime's transpose optimizer (1.19.2) takes the pads of a Pad with axes for those of the first
axes, and computes something else or fails.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx import helper, numpy_helper

from service.training.graph.builder import STANDARD
from service.training.graph.node import attributes_of
from service.training.graph.types import type_of


def all_pads(pads: Sequence[int], axes: Sequence[int], rank: int) -> list[int]:
    """Befores, then afters, of every axis. pads: befores, then afters, of the axes."""
    full = [0] * (2 * rank)
    for index, axis in enumerate(axes):
        full[axis % rank] = pads[index]
        full[rank + axis % rank] = pads[len(axes) + index]
    return full


def spell_out_pads(model: onnx.ModelProto) -> None:
    """Rewrite every Pad whose pads and axes are constants. model: with types."""
    graph = model.graph
    numbers = {t.name: t for t in graph.initializer}
    shapes = {v.name: type_of(v.type)[1] for v in (*graph.input, *graph.value_info)}
    shapes.update((t.name, tuple(t.dims)) for t in graph.initializer)
    for node in graph.node:
        if node.op_type != "Pad" or node.domain not in STANDARD or len(node.input) < 4:
            continue
        shape = shapes.get(node.input[0])
        pads, axes = numbers.get(node.input[1]), numbers.get(node.input[3])
        if shape is None or pads is None or axes is None:
            continue
        lists = [numpy_helper.to_array(t).tolist() for t in (pads, axes)]
        full = np.array(all_pads(lists[0], lists[1], len(shape)), np.int64)
        graph.initializer.append(numpy_helper.from_array(full, f"{node.name}:pads"))
        node.input[1] = f"{node.name}:pads"
        del node.input[3 if node.input[2] else 2 :]


def pad_within_convolutions(model: onnx.ModelProto) -> None:
    """Give each Conv of what is padded with zeros these pads, in place of the Pad.

    Exporters write a Pad where pads differ at both ends, as in causal convolutions.
    """
    numbers = {t.name: t for t in model.graph.initializer}
    pads = {n.output[0]: n for n in model.graph.node if n.op_type == "Pad"}
    for node in model.graph.node:
        pad = pads.get(node.input[0]) if node.op_type == "Conv" else None
        added = None if pad is None else _spatial_pads(pad, numbers)
        attributes = attributes_of(node)
        if pad is None or added is None or attributes.get("auto_pad", b"NOTSET") != b"NOTSET":
            continue
        own = attributes.pop("pads", [0] * len(added))
        del node.attribute[:]
        attributes["pads"] = [first + second for first, second in zip(own, added, strict=True)]
        node.attribute.extend(helper.make_attribute(*pair) for pair in attributes.items())
        node.input[0] = pad.input[0]


def _spatial_pads(
    node: onnx.NodeProto, numbers: Mapping[str, onnx.TensorProto]
) -> list[int] | None:
    """Of zeros behind the first two axes; None if the node does something else."""
    attributes = attributes_of(node)
    names = [name for name in node.input[1:] if name]
    if attributes.get("mode", b"constant") != b"constant" or len(node.input) > 3:
        return None
    if not numbers.keys() >= set(names):
        return None
    pads, *value = (numpy_helper.to_array(numbers[name]) for name in names)
    ends = pads.reshape(2, -1)
    if pads.min() < 0 or ends[:, :2].any() or any(array.any() for array in value):
        return None
    spatial: list[int] = ends[:, 2:].reshape(-1).tolist()
    return spatial
