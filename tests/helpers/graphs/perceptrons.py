"""Small perceptrons, and files as the engine takes them."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def perceptron(sizes: tuple[int, ...], *, dropout: bool, seed: int) -> onnx.ModelProto:
    rng = np.random.default_rng(seed)
    initializers, nodes, last = [], [], "x"
    for layer, (fan_in, fan_out) in enumerate(pairwise(sizes)):
        weight = rng.standard_normal((fan_in, fan_out)) * fan_in**-0.5
        initializers.append(numpy_helper.from_array(weight.astype(np.float32), f"w{layer}"))
        initializers.append(numpy_helper.from_array(np.zeros(fan_out, np.float32), f"b{layer}"))
        is_last = layer == len(sizes) - 2
        output = "logits" if is_last else f"h{layer}"
        nodes.append(helper.make_node("Gemm", [last, f"w{layer}", f"b{layer}"], [output]))
        if is_last:
            break
        nodes.append(helper.make_node("Relu", [output], [f"r{layer}"]))
        last = f"r{layer}"
        if dropout:
            initializers.append(numpy_helper.from_array(np.float32(0.3), f"ratio{layer}"))
            initializers.append(numpy_helper.from_array(np.array(True), f"training{layer}"))
            inputs = [last, f"ratio{layer}", f"training{layer}"]
            nodes.append(helper.make_node("Dropout", inputs, [f"d{layer}", f"m{layer}"]))
            last = f"d{layer}"
    for number, node in enumerate(nodes):
        node.name = f"node{number}"
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "perceptron",
        [value("x", TensorProto.FLOAT, ["batch", sizes[0]])],
        [value("logits", TensorProto.FLOAT, ["batch", sizes[-1]])],
        initializers,
    )
    opset = helper.make_opsetid("", 17)
    return helper.make_model(graph, opset_imports=[opset], ir_version=8)


def rewrite_ir(path: Path) -> None:
    model = onnx.load(path)
    model.ir_version = 10  # the highest that onnxruntime-training 1.19.2 loads
    used = {node.domain for node in model.graph.node}
    kept = [opset for opset in model.opset_import if opset.domain in {"", *used}]
    del model.opset_import[:]
    model.opset_import.extend(kept)
    onnx.save(model, path)
