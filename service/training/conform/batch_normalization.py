"""BatchNormalization: the engine always trains it, whatever `training_mode` says.

Exported for inference it becomes a multiplication and an addition, whose scale and bias still
train and whose statistics stay as they are. Exported for training it keeps its node, without the
outputs that the eval model would trip over; the engine moves the running statistics itself.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx

from service.training.conform.draft import Draft
from service.training.forward import trial
from service.training.forward.build import Builder
from service.training.forward.graph import Graph, float_attribute


def mend(draft: Draft) -> None:
    """Rewrite those of inference, and strip those of training."""
    graph = draft.graph
    live = [node for node in draft.nodes("BatchNormalization") if trial.trains(node, graph.proto)]
    for node in live:
        _strip(draft, node)
    still = [n for n in draft.nodes("BatchNormalization") if n.name not in {m.name for m in live}]
    rewritten: dict[str, Sequence[onnx.NodeProto]] = {}
    for node in still:
        if _dims(graph, node) is None or graph.array(node.input[4]) is None:
            draft.refuse(node, "has statistics or an input of unknown shape; export them fixed")
        else:
            rewritten[node.name] = _affine(graph, node)
    draft.note(live, "BatchNormalization trains on batch statistics, as exported")
    draft.note(
        [node for node in still if node.name in rewritten],
        "BatchNormalization keeps its running statistics, as exported, as a Mul and an Add",
    )
    graph.replace(rewritten)


def _strip(draft: Draft, node: onnx.NodeProto) -> None:
    read = [name for name in node.output[1:] if draft.graph.consumers(name)]
    if read:
        draft.refuse(node, f"has its statistics read by other nodes ({', '.join(read)})")
        return
    kept = [a for a in node.attribute if a.name != "training_mode"]
    del node.attribute[:]
    node.attribute.extend(kept)
    del node.output[1:]


def _dims(graph: Graph, node: onnx.NodeProto) -> tuple[int | None, ...] | None:
    return graph.dims(node.input[0]) or graph.dims(node.output[0])


def _affine(graph: Graph, node: onnx.NodeProto) -> list[onnx.NodeProto]:
    """x·s + (bias - mean·s) with s = scale / sqrt(variance + epsilon), all per channel."""
    b = Builder(graph, node.name)
    x, scale, bias, mean, variance = node.input
    epsilon = float_attribute(node, "epsilon", 1e-5)
    deviation = graph.array(variance)
    dims = _dims(graph, node)
    assert deviation is not None
    assert dims is not None
    inverse = b.constant((1 / np.sqrt(deviation.astype(np.float64) + epsilon)).astype(np.float32))
    channels = [-1] + [1] * (len(dims) - 2)
    factor = b.mul(scale, inverse)
    shift = b.sub(bias, b.mul(mean, factor))
    result = b.add(b.mul(x, b.reshape(factor, channels)), b.reshape(shift, channels))
    return b.finish(result, node.output[0])
