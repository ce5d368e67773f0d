"""Only what trains, and what lies above it, has to be float32."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from graph_parts import node, normal
from halves import Halves, check
from onnx import ModelProto, TensorProto, helper

from service.training.protocol.messages.preparation import Prepared

Accept = Callable[..., Prepared]
KINDS = [np.float16, np.float64]


@pytest.mark.parametrize("dtype", KINDS)
def test_a_frozen_part_of_another_precision_is_cut_off(
    dtype: type, graphs: Any, accept: Accept, trainer: Any, tmp_path: Path
) -> None:
    model = _mixed(graphs, dtype)
    prepared = accept(model, trainable=("head",), divide=True)

    assert prepared.trainable == ("v",)
    assert prepared.frozen_parameters == 35
    assert prepared.cut is not None
    assert prepared.cut.parameters == 36
    check(Halves(prepared, trainer), model, tmp_path)


@pytest.mark.parametrize("dtype", KINDS)
def test_a_frozen_part_of_another_precision_may_stay_in_the_graph(
    dtype: type, graphs: Any, accept: Accept, trainer: Any
) -> None:
    prepared = accept(_mixed(graphs, dtype), trainable=("v",))
    engine = trainer(prepared.artifacts)
    x, target = normal(5, 6, seed=9), normal(5, 3, seed=8)
    losses = [engine.step(x, target, learning_rate=0.01) for _ in range(3)]

    assert losses[-1] < losses[0]


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("trainable", [None, ("first",)])
def test_weights_of_another_precision_above_what_trains_are_refused(
    trainable: tuple[str, ...] | None,
    dtype: type,
    graphs: Any,
    refuse: Callable[..., dict[str, str]],
) -> None:
    detail = refuse(_mixed(graphs, dtype), trainable=trainable)["/model/graph/initializer"]

    assert "2 weights of float" in detail
    assert "train only parameters that lie above them" in detail


def test_weights_stored_in_half_precision_are_named_as_such(
    graphs: Any, refuse: Callable[..., dict[str, str]]
) -> None:
    model = graphs.model(
        [
            node("Cast", ["w_half"], ["w"], name="widen", to=TensorProto.FLOAT),
            node("Gemm", ["x", "w", "b"], ["y"], name="body"),
        ],
        {"w_half": normal(6, 3).astype(np.float16), "b": normal(3, seed=1)},
    )

    assert "1 weight of float16" in refuse(model)["/model/graph/initializer"]


def _mixed(graphs: Any, dtype: type) -> ModelProto:
    """A float32 scale, a layer of the other precision, a float32 head."""
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    model: ModelProto = graphs.model(
        [
            node("Mul", ["x", "first"], ["s"], name="scale"),
            node("Cast", ["s"], ["c"], name="down", to=kind),
            node("Gemm", ["c", "w", "b"], ["d"], name="body"),
            node("Cast", ["d"], ["h"], name="up", to=TensorProto.FLOAT),
            node("MatMul", ["h", "v"], ["y"], name="head"),
        ],
        {
            "first": np.ones(1, np.float32),
            "w": normal(6, 5).astype(dtype),
            "b": normal(5, seed=1).astype(dtype),
            "v": normal(5, 3, seed=2),
        },
    )
    return model
