"""Scales the output of a model of numbers to the units of its labels, so that its layers train on
standardized labels.

The scale does not train: a job sets it from the labels (service/training/label_scale.py), and
exports contain it.
"""

from __future__ import annotations

from math import prod

import numpy as np
from onnx import ValueInfoProto, helper, numpy_helper

from service.training.forward.graph import Graph, is_default
from service.training.forward.reading import ForwardModel
from service.training.forward.weights import LINEAR, PASS_THROUGH
from service.training.loss import LABEL_MEAN, LABEL_SCALE

MOST_OUTPUTS = 256
"""Labels of more numbers, such as pictures, have one scale for all: single pixels hardly vary."""
PASS_ON = PASS_THROUGH | {
    *("Add", "Sub", "Mul", "Div", "Neg", "Sum", "ReduceMean", "ReduceSum", "GlobalAveragePool"),
    *("Cast", "Dropout", "Flatten", "Gather", "Split"),
}
"""Operators that may follow a linear one without bounding its results."""


def is_scaled(forward: ForwardModel) -> bool:
    """Whether the output is scaled."""
    last = forward.graph.producer(forward.output)
    return last is not None and LABEL_MEAN in last.input


def add_label_scale(forward: ForwardModel) -> None:
    """Scale the output, by 1 and 0 at first, unless it is scaled or has a limited range, which its
    author chose to fit the labels.
    """
    graph, output = forward.graph, forward.output
    if LABEL_SCALE in graph.initializers or not _is_unbounded(graph, output):
        return
    label = forward.signature.target.shape
    shape = (1, *(label if prod(label) <= MOST_OUTPUTS else [1] * len(label)))
    for name, value in ((LABEL_SCALE, 1.0), (LABEL_MEAN, 0.0)):
        graph.proto.initializer.append(
            numpy_helper.from_array(np.full(shape, value, np.float32), name)
        )
    unscaled, scaled = graph.fresh(f"{output}/unscaled"), graph.fresh(f"{output}/scaled")
    last = graph.producer(output)
    assert last is not None
    last.output[:] = [unscaled if name == output else name for name in last.output]
    if output in graph.measured:
        graph.measured[unscaled] = ValueInfoProto()
        graph.measured[unscaled].CopyFrom(graph.measured[output])
        graph.measured[unscaled].name = unscaled
    nodes = [
        helper.make_node("Mul", [unscaled, LABEL_SCALE], [scaled], graph.fresh(LABEL_SCALE)),
        helper.make_node("Add", [scaled, LABEL_MEAN], [output], graph.fresh(LABEL_MEAN)),
    ]
    graph.set_nodes([*graph.proto.node, *nodes])


def _is_unbounded(graph: Graph, output: str) -> bool:
    """Whether it comes from a linear layer, by operators that leave it its range."""
    waiting, seen = [output], set[str]()
    while waiting:
        name = waiting.pop()
        node = graph.producer(name)
        if node is None or name in seen:
            continue
        seen.add(name)
        if is_default(node, *LINEAR):
            return True
        if is_default(node, *PASS_ON):
            waiting.extend(node.input)
    return False
