"""Graphs that were exported with a batch of one size, which Hone sets free."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from graph_parts import normal
from onnx import TensorProto, helper

node = helper.make_node
STEPS, FEATURES, HIDDEN, SIZE = 3, 2, 4, 4
"""The size of the batch is that of the hidden state, too."""


def recurrent(graphs: Any, *state: Any, **constants: np.ndarray) -> Any:
    """As PyTorch exports a GRU: time first, states of zeros, a Reshape with the batch inside."""
    nodes = [
        node("Reshape", ["x", "steps"], ["s"], name="steps"),
        node("Transpose", ["s"], ["t"], name="time_first", perm=[1, 0, 2]),
        *state,
        node("GRU", ["t", "w", "r", "b", "", "h0"], ["h"], name="cell", hidden_size=HIDDEN),
        node("Transpose", ["h"], ["last"], name="directions_last", perm=[0, 2, 1, 3]),
        node("Reshape", ["last", "joined"], ["j"], name="joined"),
        node("Gather", ["j", "end"], ["e"], name="end", axis=0),
        node("Gemm", ["e", "v"], ["y"], name="head"),
    ]
    weights = {
        "w": normal(1, 3 * HIDDEN, FEATURES),
        "r": normal(1, 3 * HIDDEN, HIDDEN, seed=1),
        "b": normal(1, 6 * HIDDEN, seed=2),
        "v": normal(HIDDEN, 3, seed=3),
        "steps": np.array([SIZE, STEPS, FEATURES]),
        "joined": np.array([STEPS, SIZE, HIDDEN]),
        "end": np.array(-1),
        **constants,
    }
    return graphs.model(nodes, weights, x=(SIZE, STEPS * FEATURES), y=(SIZE, 3))


@pytest.mark.parametrize("value", [0, 1])
@pytest.mark.parametrize("expanded", [False, True])
def test_a_recurrent_network_is_freed_with_states_that_are_the_same_for_every_row(
    expanded: bool, value: float, graphs: Any, accept: Callable[..., Any], trainer: Any
) -> None:
    states = np.full((1, 1 if expanded else SIZE, HIDDEN), value, np.float32)
    state = [node("Expand", ["z", "shape"], ["h0"], name="state")] if expanded else []
    numbers = {"z": states, "shape": np.array([1, SIZE, HIDDEN])} if expanded else {"h0": states}
    check_rows(
        accept(recurrent(graphs, *state, **numbers)), trainer, normal(7, STEPS * FEATURES, seed=5)
    )


def check_rows(made: Any, trainer: Any, x: np.ndarray) -> None:
    """Outputs of seven rows, of which one is also sent alone."""
    assert any(f"fixed size {SIZE}" in note for note in made.notes)
    trained = trainer(made.artifacts)
    first = trained.evaluate(x, np.zeros((7, 3), np.float32))[1]
    single = trained.evaluate(x[2:3], np.zeros((1, 3), np.float32))[1]
    np.testing.assert_allclose(first[2:3], single, rtol=1e-5, atol=1e-6)


def test_states_of_each_row_are_refused(graphs: Any, refuse: Callable[..., dict[str, str]]) -> None:
    problems = refuse(recurrent(graphs, h0=normal(1, SIZE, HIDDEN)))
    assert "cannot be freed" in problems["/model/graph/input/x/shape/0"]


def test_constants_that_are_the_same_for_every_row_are_kept_once(
    graphs: Any, accept: Callable[..., Any], refuse: Callable[..., dict[str, str]]
) -> None:
    """As PyTorch writes positions and masks where it expands them to the batch."""

    def model(mask: np.ndarray) -> Any:
        nodes = [
            node("Where", ["mask", "x", "low"], ["m"], name="masked"),
            node("Gemm", ["m", "v"], ["y"], name="head"),
        ]
        weights = {"mask": mask, "low": np.float32(-1), "v": normal(FEATURES, 3)}
        return graphs.model(nodes, weights, x=(SIZE, FEATURES), y=(SIZE, 3))

    same = np.repeat([[True, False]], SIZE, axis=0)
    assert any("was made dynamic" in note for note in accept(model(same)).notes)
    other = same.copy()
    other[0] = True
    assert "cannot be freed" in refuse(model(other))["/model/graph/input/x/shape/0"]


@pytest.mark.parametrize("folded", [False, True])
def test_a_learned_token_is_repeated_for_as_many_rows_as_are_fed(
    folded: bool, graphs: Any, accept: Callable[..., Any], trainer: Any
) -> None:
    """A vision transformer's class token: an Expand, or its result."""
    token = normal(1, 1, FEATURES)
    nodes = [
        node("Expand", ["token", "sizes"], ["tokens"], name="repeat"),
        node("Concat", ["tokens", "x"], ["joined"], name="join", axis=1),
        node("ReduceMean", ["joined"], ["m"], name="mean", axes=[1], keepdims=0),
        node("Gemm", ["m", "v"], ["y"], name="head"),
    ][folded:]
    weights = {"v": normal(FEATURES, 3)}
    if folded:
        weights["tokens"] = np.repeat(token, SIZE, 0)
    else:
        weights |= {"token": token, "sizes": np.array([SIZE, 1, FEATURES])}
    made = accept(graphs.model(nodes, weights, x=(SIZE, STEPS, FEATURES), y=(SIZE, 3)))
    assert made.trainable_parameters == token.size + weights["v"].size
    check_rows(made, trainer, normal(7, STEPS, FEATURES, seed=5))


def test_an_expand_over_the_last_axis_leaves_the_batch_as_it_is(
    graphs: Any, accept: Callable[..., Any], trainer: Any
) -> None:
    """As PyTorch writes normalize(): the norm of each row is expanded to the row's size."""
    nodes = [
        node("ReduceL2", ["x"], ["n"], name="norm", axes=[-1]),
        node("Expand", ["n", "sizes"], ["e"], name="expand"),
        node("Div", ["x", "e"], ["d"], name="divide"),
        node("Gemm", ["d", "v"], ["y"], name="head"),
    ]
    weights = {"v": normal(6, 3), "sizes": np.array([SIZE, 6])}
    made = accept(graphs.model(nodes, weights, x=(SIZE, 6), y=(SIZE, 3)))
    check_rows(made, trainer, normal(7, 6, seed=5))


def test_a_resize_to_fixed_sizes_leaves_the_batch_as_it_is(
    graphs: Any, accept: Callable[..., Any], trainer: Any
) -> None:
    nodes = [
        node("Resize", ["x", "", "", "sizes"], ["r"], name="upsample", mode="linear"),
        node("Flatten", ["r"], ["f"], name="flatten"),
        node("Gemm", ["f", "v"], ["y"], name="head"),
    ]
    weights = {"v": normal(24, 3), "sizes": np.array([SIZE, 2, 3, 4])}
    made = accept(graphs.model(nodes, weights, x=(SIZE, 2, 2, 3), y=(SIZE, 3)))
    check_rows(made, trainer, normal(7, 2, 2, 3, seed=5))


def test_a_batch_flattened_with_tokens_of_few_kinds_is_found(
    graphs: Any, accept: Callable[..., Any], trainer: Any
) -> None:
    """Of two kinds, some tokens of two random rows are equal."""
    nodes = [
        node("Reshape", ["x", "flat"], ["f"], name="flatten"),
        node("Gather", ["table", "f"], ["g"], name="embed"),
        node("Reshape", ["g", "rows"], ["r"], name="unflatten"),
        node("Gemm", ["r", "v"], ["y"], name="head"),
    ]
    weights = {
        "table": normal(2, FEATURES),
        "v": normal(6 * FEATURES, 3),
        "flat": np.array([SIZE * 6]),
        "rows": np.array([SIZE, 6 * FEATURES]),
    }
    made = accept(graphs.model(nodes, weights, x=(SIZE, 6), y=(SIZE, 3), x_type=TensorProto.INT64))
    check_rows(made, trainer, np.random.default_rng(0).integers(0, 2, (7, 6)))
