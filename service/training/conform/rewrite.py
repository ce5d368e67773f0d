"""Operators without a gradient, each with the function that writes it anew."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx

from service.training.conform import (
    activations,
    contraction,
    layout,
    pooling,
    reductions,
    upsampling,
)
from service.training.conform.draft import Draft
from service.training.forward.build import Builder

Rewrite = Callable[[Builder, onnx.NodeProto], "str | None"]

REWRITES: dict[str, Rewrite] = {
    "AveragePool": pooling.average_pool,
    "Celu": activations.celu,
    "ConvTranspose": upsampling.conv_transpose,
    "DepthToSpace": layout.depth_to_space,
    "Einsum": contraction.einsum,
    "Elu": activations.elu,
    "Gelu": activations.gelu,
    "GlobalMaxPool": reductions.global_max_pool,
    "GroupNormalization": reductions.group_normalization,
    "HardSigmoid": activations.hard_sigmoid,
    "HardSwish": activations.hard_swish,
    "InstanceNormalization": reductions.instance_normalization,
    "LpNormalization": reductions.lp_normalization,
    "Max": activations.chain,
    "Mean": activations.mean,
    "MeanVarianceNormalization": reductions.mean_variance_normalization,
    "Min": activations.chain,
    "Mish": activations.mish,
    "Pad": layout.pad,
    "PRelu": activations.prelu,
    "ReduceL1": reductions.reduce_l1,
    "ReduceL2": reductions.reduce_l2,
    "ReduceLogSum": reductions.reduce_log_sum,
    "ReduceMax": reductions.reduce_max,
    "ReduceMin": reductions.reduce_min,
    "ReduceSumSquare": reductions.reduce_sum_square,
    "Resize": upsampling.resize,
    "Selu": activations.selu,
    "Slice": layout.slice_backwards,
    "Softplus": activations.softplus,
    "Softsign": activations.softsign,
    "SpaceToDepth": layout.space_to_depth,
    "Sum": activations.total,
    "ThresholdedRelu": activations.thresholded_relu,
}
"""Each gives the result's name, or None if the node's shapes do not allow it."""


def mend(draft: Draft) -> None:
    """Rewrite those of the nodes that need a gradient."""
    rewritten: dict[str, Sequence[onnx.NodeProto]] = {}
    for node in draft.path(*REWRITES):
        b = Builder(draft.graph, node.name)
        result = REWRITES[node.op_type](b, node)
        if result is not None:
            rewritten[node.name] = b.finish(result, node.output[0])
    for op_type in sorted({n.op_type for n in draft.nodes(*REWRITES) if n.name in rewritten}):
        nodes = [n for n in draft.nodes(op_type) if n.name in rewritten]
        draft.note(nodes, f"{op_type} has no gradient and was written in operators that have one")
    draft.graph.replace(rewritten)
