"""What exporters merged, left out or copied. Fresh networks train in test_step_models."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from graph_parts import node, normal
from onnx import helper

from service.training.forward.normalize import normalize
from service.training.forward.trainable import select


def parameters(graphs: Any, *nodes: Any, **weights: Any) -> set[str]:
    """Initializers of the normal form."""
    graph = normalize(graphs.model(nodes, weights, x=("batch", 3)), [])
    return set(graph.initializers)


def test_equal_biases_that_an_exporter_merged_are_parted(graphs: Any) -> None:
    assert parameters(
        graphs,
        node("Identity", ["b1"], ["b2"], name="same"),
        node("Add", ["x", "b1"], ["a"], name="first"),
        node("Mul", ["a", "b2"], ["y"], name="second"),
        b1=np.zeros(3, np.float32),
    ) == {"b1", "b2"}


@pytest.mark.parametrize(
    ("scopes", "expected"),
    [
        (("/layers.0/linear", "/layers.1/linear"), {"w", "v"}),
        (("/layers.0/linear", "/layers.0/linear"), {"w"}),
        (("/embedding", "/head"), {"w"}),
    ],
)
def test_matrices_are_parted_where_modules_differ_by_a_number_alone(
    scopes: tuple[str, str], expected: set[str], graphs: Any
) -> None:
    first, second = scopes
    assert (
        parameters(
            graphs,
            node("Identity", ["w"], ["v"], name="same"),
            node("MatMul", ["x", "w"], ["a"], name=f"{first}/MatMul"),
            node("MatMul", ["a", "v"], ["y"], name=f"{second}/MatMul_1"),
            w=normal(3, 3),
        )
        == expected
    )


@pytest.mark.parametrize("listed", [False, True])
@pytest.mark.parametrize("copy", ["onnx::MatMul_7", "val_7"])
def test_a_transposed_copy_of_a_named_matrix_is_tied_to_it(
    copy: str, listed: bool, graphs: Any
) -> None:
    """listed: as with keep_initializers_as_inputs."""
    matrix = normal(3, 5)
    nodes = [
        node("MatMul", ["x", "encoder"], ["a"], name="first"),
        node("MatMul", ["a", copy], ["y"], name="second"),
    ]
    weights = {"encoder": matrix, copy: matrix.T.copy()}
    model = graphs.model(nodes, weights, x=("batch", 3))
    if listed:
        model.graph.input.extend(
            helper.make_tensor_value_info(t.name, t.data_type, t.dims)
            for t in model.graph.initializer
        )
    graph = normalize(model, [])
    assert set(graph.initializers) == {"encoder"}
    assert [value.name for value in graph.inputs] == ["x"]


def test_statistics_that_were_merged_with_the_norms_own_parameters_are_parted(graphs: Any) -> None:
    """Of a fresh BatchNormalization: a bias and a mean of zeros, a scale and a variance of ones."""
    norm = node("BatchNormalization", ["x", "n.weight", "n.bias", "n.bias", "n.weight"], ["y"])
    held = {"p_weight": "n.weight", "p_bias": "n.bias", "b_mean": "n.mean", "b_var": "n.var"}
    call = norm.metadata_props.add()
    call.key = "pkg.torch.onnx.fx_node"
    call.value = f"%y = call_function[target=batch_norm](args = (%x, %{', %'.join(held)}, 1e-05))"
    weights = {"n.weight": np.ones(3, np.float32), "n.bias": np.zeros(3, np.float32)}
    model = graphs.model([norm], weights, x=("batch", 3))
    signature = model.graph.metadata_props.add()
    signature.key = "pkg.torch.export.ExportedProgram.graph_signature"
    kinds = {"p": "PARAMETER", "b": "BUFFER"}
    signature.value = "\n".join(f"{a}: {kinds[a[0]]} target='{name}'" for a, name in held.items())

    graph = normalize(model, [])

    assert list(graph.proto.node[0].input) == ["x", "n.weight", "n.bias", "n.mean", "n.var"]
    assert set(select(graph, None)) == {"n.weight", "n.bias"}


@pytest.mark.parametrize(("producer", "size"), [("tf2onnx", 8), ("pytorch", 16)])
def test_the_second_bias_that_keras_has_not_stays_zero(
    producer: str, size: int, graphs: Any
) -> None:
    model = graphs.model(
        [
            node("Unsqueeze", ["x", "first"], ["s"], name="sequence"),
            node("LSTM", ["s", "w", "r", "b"], ["h"], name="lstm", hidden_size=2),
            node("Reshape", ["h", "rows"], ["y"], name="rows"),
        ],
        {
            "first": np.array([0]),
            "rows": np.array([-1, 2]),
            "w": normal(1, 8, 3),
            "r": normal(1, 8, 2),
            "b": np.concatenate([normal(1, 8), np.zeros((1, 8), np.float32)], axis=1),
        },
        x=("batch", 3),
    )
    model.producer_name = producer
    graph = normalize(model, [])
    assert [graph.dims(name) for name in select(graph, None)][-1] == (1, size)


def test_numbers_that_several_norms_share_are_no_parameters(graphs: Any) -> None:
    """As dynamo's exporter writes GroupNorms: with ones and zeros, their weights come after."""
    nodes = [
        node("InstanceNormalization", ["x", "val_1", "val_2"], ["a"], name="n0"),
        node("InstanceNormalization", ["a", "val_1", "val_2"], ["b"], name="n1"),
        node("Mul", ["b", "scale"], ["y"], name="scale"),
    ]
    weights = {"val_1": np.ones(3, np.float32), "val_2": np.zeros(3, np.float32)}
    model = graphs.model(nodes, {**weights, "scale": normal(3, 4)}, x=("batch", 3, 4))
    arguments = "(args = (%x, 3, %p_weight, %p_bias), kwargs = {})"
    for each in model.graph.node[:2]:
        each.metadata_props.add(key="pkg.torch.onnx.fx_node", value=f"%norm : call{arguments}")
    model.graph.metadata_props.add(
        key="pkg.torch.export.ExportedProgram.graph_signature",
        value="p_weight: PARAMETER target='n.weight'\np_bias: PARAMETER target='n.bias'",
    )
    graph = normalize(model, [])
    assert set(graph.initializers) == {"val_1", "val_2", "scale"}
    assert select(graph, None) == ("scale",)


@pytest.mark.parametrize("record", ["", "not a list", "[" * 100_000, "['w'"])
def test_an_exporters_record_that_is_not_a_list_does_no_harm(record: str, graphs: Any) -> None:
    model = graphs.model([node("MatMul", ["x", "w"], ["y"])], {"w": normal(3, 3)}, x=("batch", 3))
    value = model.graph.value_info.add(name="w")
    value.metadata_props.add(key="pkg.onnxscript.optimizer.folded_from", value=record)
    assert "w" in normalize(model, []).initializers
