"""Parameters that a file by PyTorch's TorchScript exporter tells by their names alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from graph_parts import node, normal
from onnx import TensorProto, numpy_helper

from service.training.protocol.messages.preparation import Prepared

Accept = Callable[..., Prepared]


@pytest.mark.parametrize(
    ("producer", "name", "trains"),
    [
        ("pytorch", "model.bias", True),
        ("pytorch", "gamma", True),
        ("pytorch", "onnx::Add_12", False),
        ("pytorch", "/head/Mul_output_0", False),
        ("pytorch", "193", False),
        ("pytorch", "val_71", False),
        ("keras", "gamma", False),
    ],
)
def test_one_element_under_its_name_in_pytorch_trains(
    producer: str, name: str, trains: bool, graphs: Any, accept: Accept
) -> None:
    """The bias of a factorization machine. PyTorch writes a program's numbers as constants."""
    model = graphs.around(node("Relu", ["h"], ["r"]), node("Add", ["r", name], ["g"]))
    model.graph.initializer.append(numpy_helper.from_array(normal(1), name))
    model.producer_name = producer

    assert (name in accept(model).trainable) == trains


@pytest.mark.parametrize(
    ("kind", "use", "producer", "trains"),
    [
        ("Sigmoid", "Mul", "pytorch", True),
        ("Softmax", "Mul", "pytorch", True),
        ("Exp", "Mul", "pytorch", True),
        ("Exp", "Add", "pytorch", True),
        ("Exp", "Mul", "keras", False),
        ("Reciprocal", "Mul", "pytorch", False),
    ],
)
def test_a_gate_that_is_computed_trains_under_its_name_in_pytorch(
    graphs: Any, accept: Accept, *, kind: str, use: str, producer: str, trains: bool
) -> None:
    """RWKV adds its decay, and what divides are the statistics of a frozen normalization."""
    model = graphs.around(
        node(kind, ["gate"], ["opened"]),
        node("Unsqueeze", ["opened", "axis"], ["row"]),
        node(use, ["h", "row"], ["g"]),
        gate=normal(5),
        axis=np.array([0]),
    )
    model.producer_name = producer

    assert ("gate" in accept(model).trainable) == trains


@pytest.mark.parametrize(("to", "trains"), [(TensorProto.FLOAT, True), (TensorProto.INT64, False)])
def test_a_weight_that_is_read_as_float32_trains(
    to: int, trains: bool, graphs: Any, accept: Accept
) -> None:
    """As `D.float()` of a state space model."""
    cast = node("Cast", ["gamma"], ["read"], to=to)
    back = node("Cast", ["read"], ["again"], to=TensorProto.FLOAT)
    model = graphs.around(cast, back, node("Mul", ["h", "again"], ["g"]), gamma=normal(5))

    assert ("gamma" in accept(model).trainable) == trains


def test_a_temperature_without_axes_trains_where_exp_makes_it_a_factor_or_it_is_named(
    graphs: Any, accept: Accept
) -> None:
    """CLIP's logit_scale. A factor without Exp may be a buffer, such as a fixed scale."""
    nodes = [
        node("Exp", ["logit_scale"], ["e"]),
        node("Mul", ["h", "e"], ["m"]),
        node("Mul", ["m", "scale"], ["g"]),
    ]
    numbers = {name: np.array(0.5, np.float32) for name in ("logit_scale", "scale")}
    model = graphs.around(*nodes, **numbers)
    assert not {*accept(model).trainable} & {*numbers}
    model.producer_name = "pytorch"

    assert {*accept(model).trainable} & {*numbers} == {"logit_scale"}
    assert accept(model, trainable=("scale",)).trainable == ("scale",)


@pytest.mark.parametrize("producer", ["pytorch", "keras"])
def test_a_learned_initial_state_trains_under_its_name_in_pytorch(
    producer: str, graphs: Any, accept: Accept
) -> None:
    model = graphs.model(
        [
            node("Reshape", ["x", "steps"], ["s"], name="steps"),
            node("Shape", ["s"], ["shape"], name="shape"),
            node("Gather", ["shape", "second"], ["rows"], name="rows"),
            node("Concat", ["one", "rows", "width"], ["size"], name="size", axis=0),
            node("Expand", ["start", "size"], ["state"], name="state"),
            node("GRU", ["s", "w", "r", "", "", "state"], ["", "h"], name="gru", hidden_size=4),
            node("Squeeze", ["h", "first"], ["g"], name="squeeze"),
            node("MatMul", ["g", "v"], ["y"], name="product"),
        ],
        {
            "steps": np.array([1, -1, 6]),
            "first": np.array([0]),
            "second": np.array([1]),
            "one": np.array([1]),
            "width": np.array([4]),
            "start": normal(1, 1, 4, seed=3),
            "w": normal(1, 12, 6),
            "r": normal(1, 12, 4, seed=1),
            "v": normal(4, 3, seed=2),
        },
    )
    model.producer_name = producer

    assert ("start" in accept(model).trainable) == (producer == "pytorch")
