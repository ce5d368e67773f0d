"""Which parameters train: by name, by pattern, by the layers counted from the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from graph_parts import DEEP, deep, node, normal
from onnx import ModelProto, numpy_helper

from service.training.protocol.messages.preparation import Prepared

Accept = Callable[..., Prepared]


def test_the_parameters_are_listed_with_their_side_of_the_cut(graphs: Any, accept: Accept) -> None:
    model = graphs.model(
        [
            *deep("x", "h"),
            node("Gemm", ["h", "v", "b"], ["g"], name="head"),
            node("Mul", ["g", "s"], ["y"], name="scale"),
        ],
        {**DEEP, "v": normal(6, 3), "b": normal(3), "s": normal(3, seed=3)},
    )
    prepared = accept(model, trainable=("v", "b"), divide=True)
    listed = {each.name: (each.trains, each.below) for each in prepared.parameters}
    assert listed == {
        "deep.a": (False, True),
        "deep.b": (False, True),
        "v": (True, False),
        "b": (True, False),
        "s": (False, False),
    }
    assert prepared.trainable_parameters == 21
    assert prepared.frozen_parameters == 2 * 6 * 256 + 3


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("head", {"v", "b", "s"}),
        ("last:1", {"v", "b", "s"}),
        ("last:2", {"deep.b", "v", "b", "s"}),
        ("last:3", {"deep.a", "deep.b", "v", "b", "s"}),
        ("last:9", {"deep.a", "deep.b", "v", "b", "s"}),
    ],
)
def test_the_last_layers_are_those_with_matrices_and_what_comes_behind(
    pattern: str, names: set[str], graphs: Any, accept: Accept
) -> None:
    model = graphs.model(
        [
            *deep("x", "h"),
            node("Gemm", ["h", "v", "b"], ["g"], name="head"),
            node("Mul", ["g", "s"], ["y"], name="scale"),
        ],
        {**DEEP, "v": normal(6, 3), "b": normal(3), "s": normal(3, seed=3)},
    )
    assert set(accept(model, trainable=(pattern,)).trainable) == names


def test_a_parameter_that_is_called_head_is_meant_by_that_name(graphs: Any, accept: Accept) -> None:
    model = graphs.model(
        [
            node("MatMul", ["x", "head"], ["h"], name="first"),
            node("MatMul", ["h", "v"], ["y"], name="last"),
        ],
        {"head": normal(6, 5), "v": normal(5, 3)},
    )
    assert accept(model, trainable=("head",)).trainable == ("head",)


@pytest.mark.parametrize("pattern", ["last:0", "last:", "last:x", "heads"])
def test_what_is_no_count_of_layers_is_a_glob_that_matches_nothing(
    pattern: str, graphs: Any, refuse: Callable[..., dict[str, str]]
) -> None:
    model = graphs.around(node("Relu", ["h"], ["g"], name="r"))
    assert "/spec/trainable/0" in refuse(model, trainable=(pattern,))


def test_a_learned_token_that_joins_the_samples_trains(
    graphs: Any, accept: Callable[..., Prepared]
) -> None:
    """As a vision transformer's class token: expanded to the batch, in front of the patches."""
    nodes = [
        node("Shape", ["h"], ["shape"], name="shape"),
        node("Gather", ["shape", "first"], ["rows"], name="rows", axis=0),
        node("Concat", ["rows", "two"], ["size"], name="size", axis=0),
        node("Expand", ["token", "size"], ["tokens"], name="expand"),
        node("Concat", ["tokens", "h"], ["g"], name="join", axis=1),
    ]
    model = graphs.around(
        *nodes,
        out=7,
        token=np.zeros((1, 2), np.float32),
        first=np.array([0], np.int64),
        two=np.array([2], np.int64),
    )

    assert "token" in accept(model).trainable


def test_numbers_of_the_program_do_not_train(
    graphs: Any, accept: Callable[..., Prepared], refuse: Callable[..., dict[str, str]]
) -> None:
    """A LayerNorm without weights is exported with Constant nodes of ones."""
    ones = numpy_helper.from_array(np.ones(5, np.float32))
    nodes = [
        node("Constant", [], ["ones"], name="constant", value=ones),
        node("Mul", ["h", "ones"], ["g"], name="scale"),
    ]
    model = graphs.around(*nodes)

    assert set(accept(model).trainable) == {"w", "b", "v"}
    assert "/spec/trainable/0" in refuse(model, trainable=("ones",))


@pytest.mark.parametrize(
    ("patterns", "names"),
    [
        (None, {"w", "b", "v"}),
        (("head",), {"v"}),
        (("last:2",), {"w", "b", "v"}),
        (("v",), {"v"}),
        (("[wb]",), {"w", "b"}),
    ],
)
def test_where_all_weights_are_constant_nodes_they_train_as_they_are_chosen(
    patterns: tuple[str, ...] | None, names: set[str], graphs: Any, accept: Accept
) -> None:
    model = _with_constants(graphs.around(node("Relu", ["h"], ["g"], name="relu")))

    assert set(accept(model, trainable=patterns).trainable) == names


def _with_constants(model: ModelProto) -> ModelProto:
    """Every initializer as a Constant node."""
    constants = [
        node("Constant", [], [tensor.name], name=f"the_{tensor.name}", value=tensor)
        for tensor in model.graph.initializer
    ]
    model.graph.node.extend([*constants, *[model.graph.node.pop(0) for _ in model.graph.node[:]]])
    del model.graph.initializer[:]
    return model


@pytest.mark.parametrize("name", ["layers[0].weight", "weight*", "w?"])
def test_a_name_that_would_be_a_glob_is_meant_as_it_is_written(
    name: str, graphs: Any, accept: Accept
) -> None:
    model = graphs.model(
        [
            node("MatMul", ["x", "weight"], ["h"], name="first"),
            node("MatMul", ["h", name], ["y"], name="last"),
        ],
        {"weight": normal(6, 5), name: normal(5, 3)},
    )

    assert accept(model, trainable=(name,)).trainable == (name,)


def test_a_weight_of_one_element_trains_where_it_is_named(
    graphs: Any, accept: Accept, refuse: Callable[..., dict[str, str]]
) -> None:
    model = graphs.model([node("Mul", ["x", "w"], ["y"], name="scale")], {"w": normal(1)})

    assert '"w" has one element' in refuse(model)["/model/graph/initializer"]
    assert accept(model, trainable=("w",)).trainable == ("w",)


def test_a_number_without_axes_trains_by_its_own_name_alone(graphs: Any, accept: Accept) -> None:
    scale = np.array(0.7, np.float32)
    model = graphs.around(node("Mul", ["h", "scale"], ["g"], name="scaled"), scale=scale)

    assert "scale" not in accept(model, trainable=("*",)).trainable
    assert accept(model, trainable=("w", "scale")).trainable == ("w", "scale")


@pytest.mark.parametrize("in_halves", [False, True])
def test_positions_as_sines_and_cosines_train_only_if_they_are_named(
    in_halves: bool, graphs: Any, accept: Accept
) -> None:
    angles = np.arange(3)[:, None] / 100 ** (np.arange(4) / 4)
    waves = np.sin(angles), np.cos(angles)
    table = np.concatenate(waves, 1) if in_halves else np.stack(waves, -1).reshape(3, 8)
    model = graphs.around(
        node("Reshape", ["h", "steps"], ["s"]),
        node("Add", ["s", "positions"], ["p"]),
        node("Add", ["p", "learned"], ["l"]),
        node("Reshape", ["l", "flat"], ["g"]),
        size=24,
        steps=np.array([-1, 3, 8]),
        flat=np.array([-1, 24]),
        positions=table[None].astype(np.float32),
        learned=normal(1, 3, 8),
    )

    assert set(accept(model).trainable) == {"w", "b", "v", "learned"}
    assert accept(model, trainable=("positions",)).trainable == ("positions",)


def test_a_bias_that_is_chosen_without_its_matrix_is_noted(graphs: Any, accept: Accept) -> None:
    """PyTorch's TorchScript exporter renames the matrix of a Linear on three axes."""
    model = graphs.model(
        [
            node("MatMul", ["x", "onnx::MatMul_204"], ["p"], name="product"),
            node("Add", ["h.bias", "p"], ["y"], name="sum"),
        ],
        {"onnx::MatMul_204": normal(6, 3), "h.bias": normal(3)},
    )
    (note,) = accept(model, trainable=("h.*",)).notes

    assert '"h.bias" trains without its matrix "onnx::MatMul_204"' in note
    assert not accept(model, trainable=("head",)).notes


def test_what_a_kernel_is_computed_from_trains(graphs: Any, accept: Accept) -> None:
    """Weight norm: a direction and a length."""
    model = graphs.model(
        [
            node("ReduceL2", ["direction"], ["norm"], name="norm", axes=[0], keepdims=1),
            node("Div", ["direction", "norm"], ["unit"], name="unit"),
            node("Mul", ["unit", "length"], ["w"], name="weight"),
            node("MatMul", ["x", "w"], ["y"], name="product"),
        ],
        {"direction": normal(6, 3), "length": normal(1, 3, seed=1)},
    )

    assert accept(model).trainable == ("direction", "length")


def test_each_operand_of_an_einsum_is_a_weight(graphs: Any, accept: Accept) -> None:
    product = node("Einsum", ["x", "v", "w"], ["y"], name="head", equation="bi,ij,jk->bk")
    model = graphs.model([product], {"v": normal(6, 2), "w": normal(2, 3)})
    assert accept(model).trainable == ("v", "w")
