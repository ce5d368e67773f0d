"""Cross entropy has its classes on axis 1, as in PyTorch: said where another might be meant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from graph_parts import node, normal
from onnx import ModelProto

from service.training.protocol.messages.preparation import Prepared

Accept = Callable[..., Prepared]
LAST = "if the last axis holds the classes, transpose the output to (batch, 4, 7)"


def test_an_output_of_three_axes_has_its_classes_on_axis_1_and_says_so(
    graphs: Any, accept: Accept
) -> None:
    prepared = accept(_labels_in_a_row(graphs), loss="cross_entropy")

    assert prepared.signature.target.num_classes == 7
    assert prepared.signature.target.shape == (4,)
    (note,) = prepared.notes
    assert "the classes are axis 1 of the output (batch, 7, 4)" in note
    assert "7 classes at each of 4 positions" in note
    assert LAST in note


def test_class_names_that_fit_the_last_axis_tell_to_transpose(
    graphs: Any, refuse: Callable[..., dict[str, str]]
) -> None:
    model = _labels_in_a_row(graphs)
    problems = refuse(model, loss="cross_entropy", classes=tuple("abcd"))
    assert LAST in problems["/spec/classes"]

    other = refuse(model, loss="cross_entropy", classes=tuple("abc"))
    assert "transpose" not in other["/spec/classes"]


def test_one_class_on_axis_1_and_more_on_the_last_tells_to_transpose(
    graphs: Any, refuse: Callable[..., dict[str, str]]
) -> None:
    problems = refuse(_labels_in_a_row(graphs, places=1), loss="cross_entropy")
    assert "transpose the output to (batch, 4, 1)" in problems["/spec/loss"]


@pytest.mark.parametrize("loss", ["mse", "l1", "bce_with_logits"])
def test_other_losses_have_no_classes_to_tell_of(loss: str, graphs: Any, accept: Accept) -> None:
    assert accept(_labels_in_a_row(graphs), loss=loss).notes == ()


def _labels_in_a_row(graphs: Any, places: int = 7) -> ModelProto:
    """A tagger: (batch, places, 6) to (batch, places, 4 classes)."""
    model: ModelProto = graphs.model(
        [node("MatMul", ["x", "w"], ["y"], name="head")],
        {"w": normal(6, 4)},
        x=("batch", places, 6),
        y=("batch", places, 4),
    )
    return model
