"""Rules of LSTM, GRU and RNN."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gradients import Array, check, one_node

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
STEPS, SAMPLES, INPUTS, HIDDEN = 3, 2, 3, 2


def layer(op_type: str, count: int) -> list[Array]:
    rng = np.random.default_rng(3)
    k = GATES[op_type] * HIDDEN
    shapes = [(STEPS, SAMPLES, INPUTS), (count, k, INPUTS), (count, k, HIDDEN), (count, 2 * k)]
    return [rng.normal(size=shape) * 0.7 for shape in shapes]


def states(op_type: str, count: int) -> list[Array]:
    shape = (2 if op_type == "LSTM" else 1, count, SAMPLES, HIDDEN)
    return list(np.random.default_rng(4).normal(size=shape))


def check_layer(op_type: str, inputs: list[Array | None], *, outputs: int, **more: Any) -> None:
    model = one_node(op_type, inputs, outputs=outputs, hidden_size=HIDDEN, **more)
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_param = "batch"
    check(model, {f"x{i}": v for i, v in enumerate(inputs) if v is not None})


@pytest.mark.parametrize("op_type", GATES)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_a_layer_in_every_direction(op_type: str, direction: str) -> None:
    count = 2 if direction == "bidirectional" else 1
    inputs = [*layer(op_type, count), None, *states(op_type, count)]
    outputs = 3 if op_type == "LSTM" else 2
    check_layer(op_type, inputs, outputs=outputs, direction=direction)


@pytest.mark.parametrize("op_type", GATES)
@pytest.mark.parametrize("given_states", [True, False])
def test_sequences_of_different_lengths(op_type: str, given_states: bool) -> None:
    lengths = np.array([2, 3], np.int32)
    more = states(op_type, 2) if given_states else []
    inputs = [*layer(op_type, 2), lengths, *more]
    check_layer(op_type, inputs, outputs=2, direction="bidirectional")


@pytest.mark.parametrize("before", [0, 1])
def test_a_gru_that_resets_before_or_behind_its_weights(before: int) -> None:
    check_layer("GRU", [*layer("GRU", 1)], outputs=1, linear_before_reset=before)


@pytest.mark.parametrize("op_type", GATES)
def test_a_layer_without_biases_of_which_only_the_last_state_is_read(op_type: str) -> None:
    inputs = layer(op_type, 1)[:3]
    model = one_node(op_type, inputs, outputs=2, hidden_size=HIDDEN)
    del model.graph.output[0]
    model.graph.node[0].output[0] = ""
    check(model, {f"x{i}": v for i, v in enumerate(inputs)})


def test_an_rnn_of_relu() -> None:
    check_layer("RNN", [*layer("RNN", 1)], outputs=2, activations=["Relu"])


@pytest.mark.parametrize("activations", [["Tanh", "Relu", "Sigmoid"], ["Relu", "Sigmoid", "Relu"]])
def test_an_lstm_of_other_activations(activations: list[str]) -> None:
    inputs = [*layer("LSTM", 1), None, *states("LSTM", 1)]
    check_layer("LSTM", inputs, outputs=3, activations=activations)
