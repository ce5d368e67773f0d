"""Graphs that were exported with a batch of one size, which Hone sets free."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from graph_parts import normal
from onnx import helper

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


@pytest.mark.parametrize("expanded", [False, True])
def test_a_recurrent_network_is_freed_with_its_states_of_zeros(
    expanded: bool, graphs: Any, accept: Callable[..., Any], trainer: Any
) -> None:
    zeros = np.zeros((1, SIZE, HIDDEN), np.float32)
    state = [node("Expand", ["z", "shape"], ["h0"], name="state")] if expanded else []
    numbers = {"z": zeros, "shape": np.array([1, SIZE, HIDDEN])} if expanded else {"h0": zeros}
    made = accept(recurrent(graphs, *state, **numbers))
    assert any(f"fixed size {SIZE}" in note for note in made.notes)
    trained = trainer(made.artifacts)
    x = normal(7, STEPS * FEATURES, seed=5)
    first = trained.evaluate(x, np.zeros((7, 3), np.float32))[1]
    single = trained.evaluate(x[2:3], np.zeros((1, 3), np.float32))[1]
    np.testing.assert_allclose(first[2:3], single, rtol=1e-5, atol=1e-6)


def test_states_that_are_not_zero_have_the_size_of_the_batch_and_are_refused(
    graphs: Any, refuse: Callable[..., dict[str, str]]
) -> None:
    problems = refuse(recurrent(graphs, h0=np.ones((1, SIZE, HIDDEN), np.float32)))
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
