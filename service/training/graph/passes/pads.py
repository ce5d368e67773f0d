"""Rewrites pads of some axes as pads of all axes.

ONNX Runtime's transpose optimizer (1.19.2) takes the pads of a Pad with axes for those of the first
axes, and computes something else or fails.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import numpy_helper

from service.training.graph.builder import STANDARD
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
        given = [numpy_helper.to_array(t).tolist() for t in (pads, axes)]
        full = np.array(all_pads(given[0], given[1], len(shape)), np.int64)
        graph.initializer.append(numpy_helper.from_array(full, f"{node.name}:pads"))
        node.input[1] = f"{node.name}:pads"
        del node.input[3 if node.input[2] else 2 :]
