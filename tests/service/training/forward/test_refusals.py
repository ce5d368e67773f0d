"""What cannot be mended is refused, all of it at once, with names and remedies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

node = helper.make_node
Refuse = Callable[..., dict[str, str]]


def test_several_causes_are_refused_at_once(graphs: Any, refuse: Refuse) -> None:
    nodes = [
        node("QuantizeLinear", ["h", "scale", "zero"], ["q"], name="quantize"),
        node("DequantizeLinear", ["q", "scale", "zero"], ["d"], name="dequantize"),
        node("RandomNormalLike", ["d"], ["noise"], name="noise"),
        node("Add", ["d", "noise"], ["g"], name="add"),
    ]
    model = graphs.around(*nodes, scale=np.float32(0.1), zero=np.uint8(0))
    problems = refuse(model, loss="cross_entropy", classes=("a", "b"))
    assert {"/spec/classes", "/model/graph/node/noise", "/model/graph/node/quantize"} <= set(
        problems
    )
    assert "2 class names, the output has 3 logits" in problems["/spec/classes"]


def test_an_output_that_is_no_map_of_boxes_is_told(graphs: Any, refuse: Refuse) -> None:
    problems = refuse(graphs.around(node("Relu", ["h"], ["g"])), loss="detection")
    assert "a row of the output has the shape [3]" in problems["/spec/loss"]


def test_an_input_of_another_type_is_told_which_there_are(graphs: Any, refuse: Refuse) -> None:
    model = graphs.around(node("Cast", ["h"], ["g"], to=TensorProto.FLOAT))
    model.graph.input[0].type.tensor_type.elem_type = TensorProto.FLOAT16
    assert "inputs may be bool, float32, float64, int16" in refuse(model)["/model/graph/input/x"]
    model.graph.input[0].type.tensor_type.elem_type = TensorProto.STRING
    assert 'input "x" is string; inputs may be' in refuse(model)["/model/graph/input/x"]


def test_inputs_and_outputs_without_a_shape_are_told(graphs: Any, refuse: Refuse) -> None:
    model = graphs.around(node("Relu", ["h"], ["g"]))
    model.graph.input[0].type.tensor_type.ClearField("shape")
    model.graph.output[0].type.tensor_type.ClearField("shape")
    assert set(refuse(model)) == {"/model/graph/input/x", "/model/graph/output/y"}


def test_what_has_no_gradient_is_told_with_what_else_is_wrong(graphs: Any, refuse: Refuse) -> None:
    model = graphs.around(*_detour())
    problems = refuse(model, loss="cross_entropy", classes=("a", "b"), trainable=("*", "tail.*"))
    assert set(problems) == {
        *("/spec/classes", "/spec/trainable/1", "/model/graph/node/noise"),
    }
    problems = refuse(model, loss="cross_entropy", classes=("a", "b"))
    assert set(problems) == {
        *("/spec/classes", "/model/graph/node/noise", "/model/graph/node/hardmax"),
    }


def test_what_has_no_gradient_is_told_where_the_shapes_are_not_known(
    graphs: Any, refuse: Refuse
) -> None:
    model = graphs.around(*_detour())
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_param = "time"
    assert set(refuse(model)) == {
        *("/model/graph/input/x/shape/1", "/model/graph/node/noise", "/model/graph/node/hardmax"),
    }


def _detour() -> list[Any]:
    """Noise, and an operator without a gradient."""
    return [
        node("RandomNormalLike", ["h"], ["noise"], name="noise"),
        node("Add", ["h", "noise"], ["a"], name="add"),
        node("Hardmax", ["a"], ["g"], name="hardmax"),
    ]


def test_a_quantized_operator_is_refused_with_the_remedy(graphs: Any, refuse: Refuse) -> None:
    constants = {"scale": np.float32(0.1), "zero": np.uint8(0)}
    nodes = [
        node("QuantizeLinear", ["h", "scale", "zero"], ["q"], name="quantize"),
        node("DequantizeLinear", ["q", "scale", "zero"], ["g"], name="dequantize"),
    ]
    problems = refuse(graphs.around(*nodes, **constants))
    assert "export the unfused float model" in problems["/model/graph/node/quantize"]


def test_a_quantized_layer_below_a_float_head_is_refused_unless_the_head_is_named(
    graphs: Any, refuse: Refuse, accept: Callable[..., Any]
) -> None:
    nodes = [
        node("DequantizeLinear", ["narrow", "scale", "zero"], ["w"], name="dequantize"),
        node("MatMul", ["x", "w"], ["h"], name="layer"),
        node("Relu", ["h"], ["g"], name="relu"),
        node("MatMul", ["g", "v"], ["y"], name="head"),
    ]
    weights = {
        "narrow": np.ones((6, 5), np.int8),
        "scale": np.float32(0.1),
        "zero": np.int8(0),
        "v": np.ones((5, 3), np.float32),
    }
    model = graphs.model(nodes, weights)
    problems = refuse(model)
    assert set(problems) == {"/model/graph/node/dequantize"}
    assert "name as trainable what lies above it" in problems["/model/graph/node/dequantize"]
    assert accept(model, trainable=("head",)).trainable == ("v",)


def test_a_pattern_whose_parameters_no_gradient_reaches_is_refused(
    graphs: Any, refuse: Refuse, accept: Callable[..., Any]
) -> None:
    nodes = [
        node("Cast", ["h"], ["i"], to=TensorProto.INT64, name="whole"),
        node("Cast", ["i"], ["g"], to=TensorProto.FLOAT, name="float"),
    ]
    problems = refuse(graphs.around(*nodes), trainable=("v", "[wb]"))
    assert set(problems) == {"/spec/trainable/1"}
    assert '"whole" (Cast)' in problems["/spec/trainable/1"]
    assert accept(graphs.around(*nodes)).trainable == ("v",)


def test_control_flow_between_parameters_and_loss_is_refused(graphs: Any, refuse: Refuse) -> None:
    def branch(name: str, op_type: str) -> Any:
        made = node(op_type, ["h"], [name], name=f"{name}_{op_type}")
        return helper.make_graph(
            [made], name, [], [helper.make_tensor_value_info(name, TensorProto.FLOAT, None)]
        )

    choice = node(
        "If", ["flag"], ["g"], name="choose",
        then_branch=branch("then", "Relu"), else_branch=branch("else", "Tanh"),
    )  # fmt: skip
    condition = [
        node("ReduceMax", ["h"], ["most"], name="most", keepdims=0),
        node("Greater", ["most", "zero"], ["flag"], name="flag"),
    ]
    model = graphs.around(*condition, choice, zero=np.float32(0))
    for value in (choice.attribute[0].g, choice.attribute[1].g):
        assert value.output
    problems = refuse(_shaped(model))
    assert "cannot be trained through" in (told := problems["/model/graph/node/choose"])
    assert "export it with torch.where for If" in told


def _shaped(model: Any) -> Any:
    for made in model.graph.node:
        for attribute in made.attribute:
            for value in attribute.g.output:
                shape = value.type.tensor_type.shape
                shape.dim.add().dim_param = "batch"
                shape.dim.add().dim_value = 5
    return model


@pytest.mark.parametrize("trainable", [("p", "v"), ("p", "W", "v")])
def test_weights_below_and_beside_frozen_recurrent_ones_train(
    trainable: tuple[str, ...], graphs: Any, accept: Callable[..., Any]
) -> None:
    assert set(accept(_recurrent(graphs), trainable=trainable).trainable) == set(trainable)


def test_frozen_recurrent_weights_below_every_trainable_one_stay(
    graphs: Any, accept: Callable[..., Any]
) -> None:
    assert accept(_recurrent(graphs), trainable=("v",)).trainable == ("v",)


def _recurrent(graphs: Any) -> Any:
    generator = np.random.default_rng(0)
    shapes = {"p": (2, 3), "W": (1, 16, 3), "R": (1, 16, 4), "B": (1, 32), "v": (12, 3)}
    weights: dict[str, Any] = {
        name: generator.standard_normal(shape).astype(np.float32) * 0.3
        for name, shape in shapes.items()
    }
    nodes = [
        node("Reshape", ["x", "to"], ["s0"], name="to_steps"),
        node("MatMul", ["s0", "p"], ["s1"], name="project"),
        node("Transpose", ["s1"], ["s"], name="time_first", perm=[1, 0, 2]),
        node("LSTM", ["s", "W", "R", "B"], ["Y"], name="rnn", hidden_size=4),
        node("Transpose", ["Y"], ["t"], name="batch_first", perm=[2, 0, 1, 3]),
        node("Flatten", ["t"], ["f"], name="flatten"),
        node("Gemm", ["f", "v"], ["y"], name="last"),
    ]
    return graphs.model(nodes, {**weights, "to": np.array([-1, 3, 2])})


def test_a_pattern_that_matches_nothing_is_refused_with_the_nearest_names(
    graphs: Any, refuse: Refuse
) -> None:
    model = graphs.model(
        [node("Gemm", ["x", "head.weight", "head.bias"], ["y"], name="head")],
        {"head.weight": np.zeros((6, 3), np.float32), "head.bias": np.zeros(3, np.float32)},
    )
    problems = refuse(model, trainable=("head.weigth", "head.*", "tail.*"))
    assert set(problems) == {"/spec/trainable/0", "/spec/trainable/2"}
    assert "head.weight" in problems["/spec/trainable/0"]


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_weights_of_other_precisions_are_refused(dtype: type, graphs: Any, refuse: Refuse) -> None:
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    nodes = [
        node("Cast", ["x"], ["c"], to=kind),
        node("Gemm", ["c", "w"], ["d"], name="head"),
        node("Cast", ["d"], ["y"], to=TensorProto.FLOAT),
    ]
    problems = refuse(graphs.model(nodes, {"w": np.ones((6, 3), dtype)}))
    assert "training needs float32" in next(iter(problems.values()))
    whole = [node("Gemm", ["x", "w"], ["d"]), node("Cast", ["d"], ["y"], to=kind)]
    model = graphs.model(whole, {"w": np.ones((6, 3), np.float32)})
    model.graph.output[0].type.tensor_type.elem_type = kind
    assert f"{np.dtype(dtype)}; export after model.float(), or" in refuse(model)["/spec/output"]


def test_a_graph_without_weights_is_refused(graphs: Any, refuse: Refuse) -> None:
    problems = refuse(graphs.model([node("Relu", ["x"], ["y"])], {}, y=("batch", 6)))
    assert "no float32 weight" in problems["/model/graph/initializer"]


@pytest.mark.parametrize(
    ("loss", "operator"),
    [("cross_entropy", "Softmax"), ("cross_entropy", "LogSoftmax"), ("bce_with_logits", "Sigmoid")],
)
def test_an_output_to_which_the_loss_would_apply_the_same_again_is_refused(
    loss: str, operator: str, graphs: Any, refuse: Refuse, accept: Callable[..., Any]
) -> None:
    model = graphs.model(
        [
            node("Gemm", ["x", "w"], ["logits"], name="head"),
            node(operator, ["logits"], ["y"], name="p"),
        ],
        {"w": np.ones((6, 3), np.float32)},
    )
    problems = refuse(model, loss=loss)
    assert 'as output: "logits"' in problems["/model/graph/node/p"]
    assert accept(model, loss=loss, output="logits").output == "logits"


@pytest.mark.parametrize(
    ("spec", "columns", "place"),
    [
        ({"loss": "cross_entropy"}, 1, "/spec/loss"),
        ({"loss": "cross_entropy", "classes": ("a", "a", "b")}, 3, "/spec/classes"),
        ({"loss": "mse", "classes": ("a", "b")}, 3, "/spec/classes"),
        ({"loss": "bce_with_logits", "classes": ("a", "b", "c")}, 3, "/spec/classes"),
        ({"loss": "hinge"}, 3, "/spec/loss"),
        ({"optimizer": "lion"}, 3, "/spec/optimizer"),
    ],
)
def test_a_loss_that_does_not_fit_the_target_is_refused(
    spec: dict[str, Any], columns: int, place: str, graphs: Any, refuse: Refuse
) -> None:
    model = graphs.model(
        [node("Gemm", ["x", "w"], ["y"], name="head")],
        {"w": np.ones((6, columns), np.float32)},
        y=("batch", columns),
    )
    assert set(refuse(model, **spec)) == {place}


def test_an_output_that_does_not_exist_is_refused_with_those_that_do(
    graphs: Any, refuse: Refuse
) -> None:
    problems = refuse(graphs.around(node("Relu", ["h"], ["g"], name="r")), output="logits")
    assert problems["/spec/output"].endswith("the outputs are: y")


def test_one_of_several_outputs_must_be_chosen(
    graphs: Any, refuse: Refuse, accept: Callable[..., Any]
) -> None:
    model = graphs.around(node("Relu", ["h"], ["g"], name="r"))
    model.graph.output.append(helper.make_tensor_value_info("g", TensorProto.FLOAT, ["batch", 5]))
    assert "y, g" in refuse(model)["/spec/output"]
    prepared = accept(model, output="g")
    assert prepared.signature.target.shape == (5,)
    assert prepared.trainable == ("w", "b")


def test_an_opset_that_is_too_old_is_converted(graphs: Any, accept: Callable[..., Any]) -> None:
    model = graphs.model(
        [node("Gemm", ["x", "w", "b"], ["y"], name="head")],
        {"w": np.ones((6, 3), np.float32), "b": np.ones(3, np.float32)},
        opset=9,
    )
    prepared = accept(model)
    assert "opset 9 was converted to 13" in prepared.notes


def test_an_opset_that_is_too_new_is_converted(graphs: Any, accept: Callable[..., Any]) -> None:
    prepared = accept(graphs.around(node("Relu", ["h"], ["g"], name="r"), opset=22))
    assert "opset 22 was converted to 21" in prepared.notes


def test_an_opset_that_cannot_be_converted_is_refused(graphs: Any, refuse: Refuse) -> None:
    nodes = [node("BitCast", ["h"], ["g"], name="cast", to=TensorProto.FLOAT)]
    problems = refuse(graphs.around(*nodes, opset=26))
    assert "export with opset_version=18" in problems["/model/opset_import"]
