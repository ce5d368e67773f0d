"""Small files that ask for much are refused before anything of them runs."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from greedy import (
    CALL,
    REFUSED,
    SHAPE,
    TRIPS,
    YES,
    functions,
    in_function,
    loop,
    model,
    nested_ifs,
    node,
    relus,
)

from service.training.errors import GraphRefused
from service.training.forward.load import load
from service.training.preparation import bounds
from service.training.preparation.bounds import require_bounded


@pytest.mark.parametrize("attack", REFUSED)
def test_what_asks_for_too_much_is_refused_at_once(attack: str) -> None:
    make, words = REFUSED[attack]
    made = make()
    began = time.process_time()

    with pytest.raises(GraphRefused) as caught:
        require_bounded(made)

    assert words in caught.value.problems[0].detail
    assert time.process_time() - began < 5


def test_a_value_that_does_not_fit_into_half_of_the_limit_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = model(SHAPE, {"shape": np.array([30, 10**6])})
    require_bounded(made)
    monkeypatch.setattr(bounds, "memory_limit_bytes", lambda: 200 << 20)

    with pytest.raises(GraphRefused, match="120000000 bytes for one row"):
        require_bounded(made)


@pytest.mark.parametrize(
    "made",
    [
        model(relus(2_000)),
        model(CALL, {}, functions(3, calls=10)),
        model([nested_ifs(2)], YES),
        loop("n", {**YES, "n": np.array(100)}),
        loop("n", YES, [TRIPS]),
        in_function(loop("n", {}, [TRIPS])),
        model([node("MatMul", ["x", "w"], ["y"])], {"w": np.zeros((4, 5000), np.float32)}),
    ],
    ids=["deep", "functions", "ifs", "loop", "loop of a Constant", "loop in a function", "weights"],
)
def test_what_networks_are_made_of_is_taken(made: onnx.ModelProto) -> None:
    require_bounded(made)


def test_a_model_that_cannot_be_inferred_is_left_to_the_checker(tmp_path: Path) -> None:
    path = tmp_path / "twice.onnx"
    twice = model(CALL, {}, functions(1, calls=1) * 2)
    twice.graph.output[0].type.tensor_type.shape.SetInParent()
    onnx.save_model(twice, path)

    with pytest.raises(GraphRefused, match="the ONNX checker says"):
        load(path)
