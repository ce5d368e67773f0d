"""Every form that a convolution may take computes the same loss and gradients."""

from __future__ import annotations

import pytest
from blocked_networks import BLOCK, ROWS, Network

from service.training.graph.blocks.choices import Choices
from service.training.graph.blocks.layout import BlockLayout

pytestmark = pytest.mark.skipif(BLOCK is None, reason="the runtime has no layout of its own here")


def network() -> Network:
    """Of the model's input, depthwise, in groups, with a stride, and with many weights."""
    made = Network(3, 9, 9)
    made.conv(32, 3, 3, 3, pads=[1, 1, 1, 1])
    made.add("Relu")
    made.conv(32, 32, 3, 3, pads=[1, 1, 1, 1], group=32)
    made.conv(32, 32, 3, 3, pads=[1, 1, 1, 1], group=8)
    made.conv(64, 32, 3, 3, pads=[1, 1, 1, 1], strides=[2, 2])
    made.norm(64)
    made.conv(256, 64, 3, 3, pads=[1, 1, 0, 0])
    made.add("Relu")
    made.conv(64, 256, 1, 3, pads=[0, 1, 0, 1])
    return made


def layout(choices: Choices) -> BlockLayout:
    return BlockLayout(BLOCK or 1, ROWS, choices)


def test_all_forms_give_the_loss_and_gradients_of_the_step_in_onnx_s_layout() -> None:
    choices = Choices()
    guessed = network().check(layout=layout(choices))
    kinds = set()
    for question, (guess, forms) in choices.asked.items():
        assert guess not in forms
        for form in forms:
            step = network().check(layout=layout(Choices({question: form})))
            assert step.model != guessed.model
            kinds.add((question.split()[0], form))
    wanted = {("form", "plain"), ("form", "columns"), ("form", "blocks")}
    assert kinds == wanted | {("beside", "zeros"), ("beside", "pads")}


def test_a_convolution_with_far_more_weights_than_what_they_meet_asks_nothing() -> None:
    choices, made = Choices(), Network(64, 2, 2)
    made.conv(256, 64, 3, 3, pads=[1, 1, 1, 1])
    made.check(layout=layout(choices), blocked=False)
    assert not choices.asked
    assert not choices.convolutions
