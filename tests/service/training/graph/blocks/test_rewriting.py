"""The step in the runtime's own layout of convolutions computes what the step in ONNX's does."""

from __future__ import annotations

import math

import numpy as np
import pytest
from blocked_networks import BLOCK, ROWS, Network
from gradients import FEW
from hypothesis import given, settings
from hypothesis import strategies as st

from service.training.graph.blocks.layout import DOMAIN
from service.training.graph.blocks.rewriting import FEW_PLACES

pytestmark = pytest.mark.skipif(BLOCK is None, reason="the runtime has no layout of its own here")


@given(st.data())
@settings(max_examples=25, **FEW)
def test_convolutions_of_any_form(data: st.DataObject) -> None:
    axes = data.draw(st.sampled_from([1, 2, 2, 2]))
    kind = data.draw(st.sampled_from(["whole", "whole", "depthwise", "narrow groups", "groups"]))
    ins, outs, group = {
        "whole": (
            data.draw(st.sampled_from([1, 3, 9, 16, 20, 33])),
            data.draw(st.integers(8, 40)),
            1,
        ),
        "depthwise": (20, 20, 20),
        "narrow groups": data.draw(st.sampled_from([(32, 32, 4), (32, 32, 8), (24, 24, 6)])),
        "groups": (64, 32, 2),
    }[kind]
    network = Network(5, *(data.draw(st.integers(9, 13)) for _ in range(axes)))
    network.conv(ins, 5, *[1] * axes)
    network.add("Tanh")
    kernel = [data.draw(st.integers(1, 4)) for _ in range(axes)]
    strides = [data.draw(st.integers(1, 3)) for _ in range(axes)]
    network.conv(
        outs,
        ins,
        *kernel,
        group=group,
        strides=strides,
        dilations=[data.draw(st.integers(1, 2)) for _ in range(axes)],
        pads=[data.draw(st.integers(0, 2)) for _ in range(2 * axes)],
    )
    tiles = kernel == strides and math.prod(kernel) > FEW_PLACES  # a product of them instead
    network.check(rows=data.draw(st.integers(1, ROWS)), blocked=ins > 3 or not tiles)


@pytest.mark.parametrize("strides", [[1, 1], [2, 2]])
@pytest.mark.parametrize(("ins", "outs"), [(3, 16), (16, 40), (40, 16)])
def test_large_pictures(ins: int, outs: int, strides: list[int]) -> None:
    """The gradient by the weights is computed band by band, by kernels of x or of y."""
    network = Network(ins, 37, 38)
    network.add("Tanh")
    network.conv(outs, ins, 3, 4, strides=strides, pads=[1, 1, 2, 0])
    network.check()


@pytest.mark.parametrize(("side", "beside"), [(6, 0), (8, 1)])
def test_rows_of_whole_groups_of_places_have_zeros_beside_them_instead_of_pads(
    side: int, beside: int
) -> None:
    """In the convolution, and in that of its gradient."""
    network = Network(64, side, side)
    network.conv(64, 64, 1, 1)
    network.conv(64, 64, 3, 3, pads=[1, 1, 1, 1])
    nodes = [n for n in network.check().model.graph.node if n.domain == DOMAIN]
    pads = [list(a.ints) for node in nodes for a in node.attribute if a.name == "pads"]
    assert pads.count([1, beside, 1, beside]) == 2


@pytest.mark.parametrize(
    "windows", [{"pads": [1, 1, 0, 2]}, {"strides": [2, 1]}, {"dilations": [1, 2]}]
)
@pytest.mark.parametrize("norm", [False, True])
def test_weights_that_outnumber_what_they_meet_stay_in_order(
    windows: dict[str, list[int]], *, norm: bool
) -> None:
    network = Network(64, 3, 5)
    network.add("Tanh")
    network.conv(96, 64, 3, 3, **windows)
    if norm:
        network.norm(96)
    network.check(blocked=False)


@pytest.mark.parametrize("activation", ["Relu", "Sigmoid", "Tanh", "HardSwish", "LeakyRelu"])
@pytest.mark.parametrize("ins", [3, 24])
def test_an_activation_and_a_norm_become_part_of_the_convolution(activation: str, ins: int) -> None:
    network = Network(ins, 8, 8)
    network.conv(24, ins, 3, 3, pads=[1, 1, 1, 1])
    network.norm(24)
    network.add(activation)
    network.conv(16, 24, 1, 1)
    step = network.check()
    kinds = {node.op_type for node in step.model.graph.node}
    assert "BatchNormalization" not in kinds


@pytest.mark.parametrize("shape", [(1, 24, 1, 1), (24, 1, 1)])
def test_factors_become_part_of_the_weights(shape: tuple[int, ...]) -> None:
    """Of channels after a convolution, and a number before it."""
    network = Network(24, 9, 9)
    network.conv(24, 24, 3, 3, pads=[1, 1, 1, 1])
    first, sizes = network.last, network.constant(np.array(shape))
    network.add("Mul", first, network.add("Reshape", network.weight(24), sizes))
    network.norm(24)
    number = network.constant(np.array(0.7, np.float32))
    network.add("Erf", network.add("Div", network.last, number))
    network.add("Mul", number, network.last)
    network.conv(16, 24, 1, 1)
    step = network.check()
    kinds = [node.op_type for node in step.model.graph.node]
    assert kinds.count("ReorderOutput") == 4  # of weights' gradients, and of the result
    assert all(node.domain == DOMAIN for node in step.model.graph.node if node.op_type == "Conv")


@pytest.mark.parametrize(
    ("kernel", "strides", "pads"),
    [([2, 2], [2, 2], [0] * 4), ([3, 3], [2, 2], [1] * 4), ([3, 2], [1, 2], [1, 1, 1, 0])],
)
@pytest.mark.parametrize("side", [8, 9])
@pytest.mark.parametrize("ceil_mode", [0, 1])
def test_a_pool_gives_its_gradient_to_the_first_of_the_largest(
    kernel: list[int], strides: list[int], pads: list[int], side: int, ceil_mode: int
) -> None:
    network = Network(3, side, side)
    network.conv(16, 3, 3, 3, pads=[1, 1, 1, 1])
    network.add("Relu")  # equal numbers: zeros
    windows = {"kernel_shape": kernel, "strides": strides, "pads": pads}
    network.add("MaxPool", **windows, ceil_mode=ceil_mode)
    network.conv(16, 16, 1, 1)
    step = network.check()
    assert {n.domain for n in step.model.graph.node if n.op_type == "MaxPool"} == {DOMAIN}


def test_residuals_concatenations_and_resizes_stay_in_the_layout() -> None:
    network = Network(3, 8, 8)
    first = network.conv(32, 3, 3, 3, pads=[1, 1, 1, 1], strides=[2, 2])
    second = network.conv(32, 32, 3, 3, pads=[1, 1, 1, 1])
    joined = network.add("Concat", network.add("Add", first, second), first, axis=1)
    scales = network.constant(np.array([1, 1, 2, 2], np.float32))
    network.add(
        "Resize", joined, "", scales, mode="nearest", coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )  # fmt: skip
    network.norm(64)
    network.add("Relu")
    network.add("AveragePool", kernel_shape=[2, 2], strides=[2, 2])
    network.conv(20, 64, 3, 3, pads=[1, 1, 1, 1])
    step = network.check()
    reordered = [node for node in step.model.graph.node if node.op_type == "ReorderInput"]
    assert len(reordered) <= 1  # the gradient of the last result


@pytest.mark.parametrize("channels", [16, 24])
def test_gates_of_channels(channels: int) -> None:
    """Squeeze and excitation: the gate's convolutions of single places are matrix products."""
    network = Network(3, 9, 9)
    whole = network.conv(channels, 3, 3, 3)
    network.add("GlobalAveragePool")
    network.conv(8, channels, 1, 1)
    network.add("Relu")
    network.conv(channels, 8, 1, 1)
    gate = network.add("HardSigmoid")
    network.add("Mul", whole, gate)
    network.conv(16, channels, 1, 1)
    step = network.check()
    assert "Conv" not in {n.op_type for n in step.model.graph.node if n.domain != DOMAIN}


@pytest.mark.parametrize("outs", [8, 20])
def test_a_transposed_convolution_whose_windows_tile_the_result(outs: int) -> None:
    network = Network(3, 5, 6)
    network.conv(32, 3, 3, 3, pads=[1, 1, 1, 1])
    weight, bias = network.weight(32, outs, 2, 2), network.weight(outs)
    network.add("ConvTranspose", network.last, weight, bias, strides=[2, 2])
    network.conv(16, outs, 3, 3)
    network.check()


def test_what_depends_on_weights_alone_is_not_part_of_the_step() -> None:
    network = Network(3, 8, 8)
    network.conv(32, 3, 3, 3)
    network.norm(32)
    network.conv(32, 32, 3, 3)
    step = network.check()
    assert step.once is not None
    read = {value.name for value in step.model.graph.input}
    assert read.isdisjoint({"w0", "w2", "w4"})  # weights and norm, which are fed in blocks
    assert {value.name for value in step.once.before.graph.output} <= read


def test_weights_that_are_only_reshaped_train_without_another_graph() -> None:
    network = Network(12, 1, 1)
    network.conv(5, 12, 1, 1)
    assert network.check(blocked=False).once is None


def test_other_networks_have_no_such_layout() -> None:
    network = Network(4, 5, 5, 5)
    network.conv(16, 4, 3, 3, 3)
    assert network.check(blocked=False).once is None
