"""Checks gradient graphs: central differences in float64, and the same numbers from the engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from hypothesis import Phase
from numpy.typing import NDArray
from numpy_operators import OPERATORS
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from service.training.engines.runtime import onnxruntime
from service.training.graph.step import differentiate, gradient_of
from service.training.loss import LOSS as STEP_LOSS

Array = NDArray[Any]
FEW = {"phases": (Phase.explicit, Phase.generate)}
"""Settings of hypothesis: no time for a smaller example."""
OPSET = 18
LOSS = "loss"


def reference(model: onnx.ModelProto) -> ReferenceEvaluator:
    """ONNX's own evaluator, in float64 throughout."""
    return ReferenceEvaluator(model, new_ops=OPERATORS)


def one_node(
    op_type: str,
    inputs: Sequence[Array | None],
    *,
    outputs: int = 1,
    constants: Sequence[int] = (),
    symbolic: Sequence[int] = (),
    opset: int = OPSET,
    domain: str = "",
    **attributes: Any,
) -> onnx.ModelProto:
    """A model of one node on inputs x0, x1 …; its loss is the sum of all outputs, each weighted.

    constants: inputs that are initializers. symbolic: axes whose size the graph does not tell.
    """
    names = [f"x{i}" if value is not None else "" for i, value in enumerate(inputs)]
    values = {n: v for n, v in zip(names, inputs, strict=True) if v is not None}
    fixed = {names[i] for i in constants}
    results = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op_type, names, results, name="n", domain=domain, **attributes)
    graph = helper.make_graph(
        [node],
        "one",
        [_described(n, v, symbolic) for n, v in values.items() if n not in fixed],
        [helper.make_empty_tensor_value_info(name) for name in results],
        [numpy_helper.from_array(values[n], n) for n in fixed],
    )
    imports = [helper.make_opsetid("", opset)]
    if domain:
        imports.append(helper.make_opsetid(domain, 1))
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def _described(name: str, value: Array, symbolic: Sequence[int]) -> onnx.ValueInfoProto:
    dims = [f"{name}_{a}" if a in symbolic else size for a, size in enumerate(value.shape)]
    kind = helper.np_dtype_to_tensor_dtype(value.dtype)
    return helper.make_tensor_value_info(name, kind, dims)


def weighted(model: onnx.ModelProto, feeds: dict[str, Array]) -> onnx.ModelProto:
    """The model with one output: the sum of all its float outputs, with random weights."""
    found = reference(model).run(None, feeds)
    total = onnx.ModelProto()
    total.CopyFrom(model)
    graph = total.graph
    rng = np.random.default_rng(5)
    sums = []
    for value, result in zip(graph.output, found, strict=True):
        if result.dtype not in (np.float32, np.float64):
            continue
        weights = rng.normal(size=result.shape).astype(result.dtype)
        graph.initializer.append(numpy_helper.from_array(weights, f"{value.name}_w"))
        graph.node.append(
            helper.make_node("Mul", [value.name, f"{value.name}_w"], [f"{value.name}_m"])
        )
        sums.append(f"{value.name}_s")
        graph.node.append(
            helper.make_node("ReduceSum", [f"{value.name}_m"], [sums[-1]], keepdims=0)
        )
    graph.node.append(helper.make_node("Sum", sums, [LOSS]))
    del graph.output[:]
    graph.output.append(helper.make_tensor_value_info(LOSS, TensorProto.DOUBLE, []))
    return total


def check(
    model: onnx.ModelProto,
    feeds: dict[str, Array],
    by: Sequence[str] | None = None,
    *,
    engine: bool = True,
) -> None:
    """The gradient by float inputs equals central differences, and the engine gives the same.

    model, feeds: in float64. by: all float inputs if None. engine: whether every runtime runs it.
    """
    by = [n for n, v in feeds.items() if v.dtype == np.float64] if by is None else by
    model = weighted(model, feeds)
    found = gradients(model, feeds, by)
    evaluator = reference(model)
    for name in by:
        _check_slope(evaluator, feeds, name, found[name])
    if engine:
        check_engine(model, feeds, by, found)


def gradients(
    model: onnx.ModelProto, feeds: dict[str, Array], by: Sequence[str]
) -> dict[str, Array]:
    """By the reference evaluator, which must find the model's loss in their graph, too."""
    step = differentiate(model, loss=LOSS, parameters=by)
    with np.errstate(divide="ignore", invalid="ignore"):  # Where takes the other side.
        loss, *results = reference(step).run([STEP_LOSS, *map(gradient_of, by)], feeds)
        (expected,) = reference(model).run([LOSS], feeds)
    np.testing.assert_allclose(loss, expected, rtol=1e-6)
    return dict(zip(by, results, strict=True))


def check_engine(
    model: onnx.ModelProto, feeds: dict[str, Array], by: Sequence[str], expected: dict[str, Array]
) -> None:
    """The engine computes in float32 what was expected."""
    single = {n: v.astype(np.float32) if v.dtype == np.float64 else v for n, v in feeds.items()}
    step = differentiate(halved(model), loss=LOSS, parameters=by)
    onnx.checker.check_model(step, full_check=True)
    found = run(step, single)
    for name in by:
        result, wish = found[gradient_of(name)], expected[name]
        assert result.shape == wish.shape, name
        np.testing.assert_allclose(result, wish, rtol=2e-3, atol=2e-4 * _size(wish), err_msg=name)


def run(model: onnx.ModelProto, feeds: dict[str, Array]) -> dict[str, Array]:
    """All outputs, by the engine."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [value.name for value in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds), strict=True))


def halved(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same model in float32."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    graph = copy.graph
    for value in (*graph.input, *graph.output, *graph.value_info):
        if value.type.tensor_type.elem_type == TensorProto.DOUBLE:
            value.type.tensor_type.elem_type = TensorProto.FLOAT
    for tensor in graph.initializer:
        if tensor.data_type == TensorProto.DOUBLE:
            array = numpy_helper.to_array(tensor).astype(np.float32)
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    return copy


def _check_slope(
    evaluator: ReferenceEvaluator, feeds: dict[str, Array], name: str, gradient: Array
) -> None:
    """Along random directions the loss rises as the gradient says."""
    assert gradient.shape == feeds[name].shape, f"{name}: {gradient.shape}"
    assert gradient.dtype == np.float64
    rng = np.random.default_rng(7)
    for _ in range(2):
        direction = rng.normal(size=gradient.shape)
        step = 1e-6
        high, low = (
            float(evaluator.run(None, {**feeds, name: feeds[name] + s * step * direction})[0])
            for s in (1, -1)
        )
        slope = (high - low) / (2 * step)
        wish = float((gradient * direction).sum())
        assert abs(slope - wish) <= 1e-5 * max(1.0, abs(slope), _size(gradient)), (
            f"by {name}: differences give {slope}, the gradient {wish}"
        )


def _size(value: Array) -> float:
    return max(1.0, float(np.abs(value).max(initial=0)))
