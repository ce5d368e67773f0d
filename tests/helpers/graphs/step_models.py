"""Small models, compiled for the engine of sessions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx.helper import make_graph, make_model, make_node, make_opsetid, make_tensor_value_info
from onnx.numpy_helper import from_array

from service.training.engines.compilation import compile_model
from service.training.engines.manifest import Files
from service.training.graph.blocks.layout import BlockLayout
from service.training.graph.step import build_evaluation, build_step
from service.training.loss import Loss

FEATURES, CLASSES = 6, 3
CROSS_ENTROPY = Loss("cross_entropy")
FLOAT = onnx.TensorProto.FLOAT


def perceptron(*, hidden: int = 8, seed: int = 0, output: str = "logits") -> onnx.ModelProto:
    """x [batch, 6] → logits [batch, 3], with one hidden layer."""
    rng = np.random.default_rng(seed)
    sizes = {"w0": (FEATURES, hidden), "b0": (hidden,), "w1": (hidden, CLASSES), "b1": (CLASSES,)}
    weights = [
        from_array((rng.standard_normal(shape) * 0.4).astype(np.float32), name)
        for name, shape in sizes.items()
    ]
    nodes = [
        make_node("Gemm", ["x", "w0", "b0"], ["h"], "hidden"),
        make_node("Tanh", ["h"], ["t"], "tanh"),
        make_node("Gemm", ["t", "w1", "b1"], [output], "head"),
    ]
    return model_of(nodes, {"x": ["batch", FEATURES]}, {output: ["batch", CLASSES]}, weights)


def model_of(
    nodes: list[onnx.NodeProto],
    inputs: dict[str, list[Any]],
    outputs: dict[str, list[Any]],
    weights: list[onnx.TensorProto],
) -> onnx.ModelProto:
    values = [
        [make_tensor_value_info(name, FLOAT, shape) for name, shape in each.items()]
        for each in (inputs, outputs)
    ]
    graph = make_graph(nodes, "model", *values, weights)
    model = make_model(graph, opset_imports=[make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return model


def compiled(
    model: onnx.ModelProto,
    directory: Path,
    *,
    loss: Loss = CROSS_ENTROPY,
    parameters: tuple[str, ...] | None = None,
    by_class: bool = False,
    layout: BlockLayout | None = None,
) -> Files:
    """Write the files of a step of all initializers, or of the parameters.

    by_class: with a step for options, too. layout: of the step for this processor.
    """
    (output,) = (value.name for value in model.graph.output)
    names = parameters or tuple(initializer.name for initializer in model.graph.initializer)
    step, *here = (
        build_step(model, loss=loss, parameters=names, by_class=by_class, layout=each)
        for each in ([None] if layout is None else [None, layout])
    )
    evaluation = build_evaluation(model, loss=loss, parameters=names)
    options: dict[str, Any] = {"classes": CLASSES} if by_class else {}
    if here:
        options["here"] = here[0]
    return compile_model(step, evaluation, model, output=output, directory=directory, **options)


def batch(number: int, size: int = 8) -> tuple[list[Any], Any]:
    """Inputs and labels for the perceptron."""
    rng = np.random.default_rng(number)
    x = rng.standard_normal((size, FEATURES)).astype(np.float32)
    return [x], rng.integers(0, CLASSES, size)
