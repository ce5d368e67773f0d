"""The types of a node's outputs."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, shape_inference

from service.training.graph import types
from service.training.graph.types import Type, infer_outputs

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
OPSET = 18


def reshaped(x: str, *sizes: int) -> list[Type]:
    """The inferred type of a tensor of 6 columns that is reshaped to these sizes."""
    target = numpy_helper.from_array(np.array(sizes, np.int64), f"{x}:sizes")
    node = helper.make_node("Reshape", [x, target.name], [f"{x}:reshaped"])
    given: dict[str, Type] = {x: (FLOAT, ("batch", 6)), target.name: (INT64, (len(sizes),))}
    return infer_outputs(node, OPSET, given, {target.name: target})


def test_it_follows_the_values_of_constants_not_their_names() -> None:
    assert reshaped("a", 3, 4) == reshaped("b", 3, 4) == [(FLOAT, (3, 4))]
    assert reshaped("a", 4, 3) == [(FLOAT, (4, 3))]


def test_inference_is_asked_once_about_equal_nodes() -> None:
    types._infer.cache_clear()
    for name in ("a", "b", "c"):
        reshaped(name, 2, 9)
    assert types._infer.cache_info().misses == 1


def test_an_input_that_comes_twice_and_one_that_is_left_out_keep_their_places() -> None:
    square = helper.make_node("MatMul", ["x", "x"], ["y"])
    assert infer_outputs(square, OPSET, {"x": (FLOAT, (5, 5))}, {}) == [(FLOAT, (5, 5))]
    clip = helper.make_node("Clip", ["x", "", "top"], ["y"])
    known: dict[str, Type] = {"x": (FLOAT, (2, "n")), "top": (FLOAT, ())}
    assert infer_outputs(clip, OPSET, known, {}) == [(FLOAT, (2, "n"))]


def test_outputs_that_are_left_out_keep_their_place() -> None:
    node = helper.make_node("LayerNormalization", ["x", "scale"], ["y", "", "deviation"])
    found = infer_outputs(node, OPSET, {"x": (FLOAT, (3, 7)), "scale": (FLOAT, (7,))}, {})
    assert (found[0], found[2]) == ((FLOAT, (3, 7)), (FLOAT, (3, 1)))


def test_inputs_that_do_not_fit_are_refused_every_time() -> None:
    node = helper.make_node("MatMul", ["a", "b"], ["y"])
    given: dict[str, Type] = {"a": (FLOAT, (2, 3)), "b": (FLOAT, (4, 5))}
    for _ in range(2):
        with pytest.raises((shape_inference.InferenceError, onnx.checker.ValidationError)):
            infer_outputs(node, OPSET, given, {})
