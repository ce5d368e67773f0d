"""Operators of real exports: their gradients are those of finite differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from graph_parts import SPATIAL, node, spatial
from native_operators import NATIVE
from operators import PLAIN, SPATIAL_OPERATORS

from service.training.protocol.messages.preparation import Prepared

CASES = {
    **{name: (nodes, extra, 5) for name, (nodes, extra) in PLAIN.items()},
    **{
        name: (nodes, extra, 16 if name.startswith("Spatial") else 5)
        for name, (nodes, extra) in NATIVE.items()
    },
    **{
        name: (spatial(*nodes), {**SPATIAL, **extra}, 16)
        for name, (nodes, extra) in SPATIAL_OPERATORS.items()
    },
}


@pytest.mark.parametrize("name", CASES)
def test_the_gradient_of_an_operator_is_that_of_finite_differences(
    name: str,
    graphs: Any,
    accept: Callable[..., Prepared],
    check_gradients: Callable[..., None],
) -> None:
    nodes, extra, size = CASES[name]
    model = graphs.around(*nodes, size=size, **extra)

    check_gradients(model, accept(model, optimizer="sgd"))


@pytest.mark.parametrize("value", [-200.0, 0.0, 200.0])
def test_softplus_and_elu_stay_finite_far_from_zero(
    value: float, graphs: Any, accept: Callable[..., Prepared], trainer: type
) -> None:
    nodes = [
        node("Softplus", ["h"], ["p"], name="softplus"),
        node("Elu", ["p"], ["q"], name="elu"),
        node("Selu", ["h"], ["r"], name="selu"),
        node("Add", ["q", "r"], ["g"], name="add"),
    ]
    prepared = accept(graphs.around(*nodes), optimizer="sgd")
    x = np.full((2, 6), value, np.float32)
    gradients = trainer(prepared.artifacts).gradients(("w",), x, np.zeros((2, 3), np.float32))
    assert np.all(np.isfinite(gradients["w"]))


def test_operators_below_every_trainable_parameter_stay_as_they_are(
    graphs: Any, accept: Callable[..., Prepared]
) -> None:
    softplus = node("Softplus", ["h"], ["g"], name="softplus")
    prepared = accept(graphs.around(softplus), trainable=("v",))
    assert not any("Softplus" in note for note in prepared.notes)
    operators = {n.op_type for n in onnx.load(prepared.artifacts.eval_model).graph.node}
    assert "Softplus" in operators
