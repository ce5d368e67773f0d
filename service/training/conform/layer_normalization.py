"""LayerNormalization: the gradient needs a bias, and the mean and inverse deviation as outputs."""

from __future__ import annotations

import numpy as np
import onnx

from service.training.conform.draft import Draft
from service.training.forward.graph import input_at


def mend(draft: Draft) -> None:
    """Name the two optional outputs, and give a bias of zeros where there is none."""
    bare = [node for node in draft.path("LayerNormalization") if not input_at(node, 2)]
    for node in bare:
        if draft.graph.dims(node.input[1]) is None:
            draft.refuse(node, "has no bias, and a scale of unknown shape; export it with a bias")
        else:
            _give_bias(draft, node)
    draft.note(bare, "LayerNormalization was given a bias of zeros, which does not train")
    nodes = [n for n in draft.path("LayerNormalization") if len([*filter(None, n.output)]) < 3]
    for node in nodes:
        given = [*node.output, "", ""]
        node.output[:] = [
            given[0],
            given[1] or draft.graph.fresh(f"{node.name}_mean"),
            given[2] or draft.graph.fresh(f"{node.name}_inv_std_dev"),
        ]
    draft.note(nodes, "LayerNormalization was given the two outputs that its gradient needs")
    draft.graph.refresh()


def _give_bias(draft: Draft, node: onnx.NodeProto) -> None:
    dims = [size or 1 for size in draft.graph.dims(node.input[1]) or ()]
    name = draft.graph.add_initializer(f"{node.name}/no_bias", np.zeros(dims, np.float32))
    draft.graph.constants.add(name)
    node.input[:] = [*node.input[:2], name]
