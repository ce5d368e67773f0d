"""Uploads are not trusted: broken files, data outside of the file, odd signatures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from service.training.forward.load import MAX_MODEL_BYTES

node = helper.make_node
Refuse = Callable[..., dict[str, str]]
SECRET = "../secret"


def external(name: str = "outside") -> TensorProto:
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=[5])
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=SECRET)
    return tensor


def branch(*nodes: onnx.NodeProto, tensors: tuple[TensorProto, ...] = ()) -> onnx.GraphProto:
    output = helper.make_tensor_value_info("o", TensorProto.FLOAT, ["batch", 5])
    return helper.make_graph(list(nodes), "branch", [], [output], list(tensors))


def in_initializer(model: onnx.ModelProto) -> str:
    model.graph.initializer.append(external())
    return "/model/graph/initializer/outside"


def in_sparse_initializer(model: onnx.ModelProto) -> str:
    sparse = model.graph.sparse_initializer.add()
    sparse.values.CopyFrom(external())
    sparse.dims.extend([5])
    return "/model/graph/sparse_initializer/outside"


def in_attribute(model: onnx.ModelProto) -> str:
    model.graph.node.insert(0, node("Constant", [], ["c"], name="fixed", value=external()))
    return "/model/graph/node/fixed/value"


def in_subgraph(model: onnx.ModelProto) -> str:
    inner = branch(node("Add", ["h", "outside"], ["o"], name="a"), tensors=(external(),))
    choice = node("If", ["f"], ["i"], name="choose", then_branch=inner, else_branch=inner)
    model.graph.node.append(choice)
    return "/model/graph/node/choose/else_branch/initializer/outside"


def in_attribute_of_a_subgraph(model: onnx.ModelProto) -> str:
    inner = branch(node("Constant", [], ["o"], name="deep", value=external()))
    model.graph.node.append(
        node("If", ["f"], ["i"], name="choose", then_branch=inner, else_branch=inner)
    )
    return "/model/graph/node/choose/else_branch/node/deep/value"


def in_function(model: onnx.ModelProto) -> str:
    body = [node("Constant", [], ["o"], name="inside", value=external())]
    model.functions.append(
        helper.make_function("own", "Fixed", [], ["o"], body, [helper.make_opsetid("", 17)])
    )
    return "/model/functions/Fixed/node/inside/value"


def in_training_info(model: onnx.ModelProto) -> str:
    model.training_info.add().initialization.initializer.append(external())
    return "/model/training_info/0/initialization/initializer/outside"


@pytest.mark.parametrize(
    "plant",
    [
        in_initializer,
        in_sparse_initializer,
        in_attribute,
        in_subgraph,
        in_attribute_of_a_subgraph,
        in_function,
        in_training_info,
    ],
)
def test_data_outside_of_the_file_is_refused_once_wherever_it_is_named(
    plant: Callable[[onnx.ModelProto], str], graphs: Any, refuse: Refuse, tmp_path: Path
) -> None:
    model = graphs.around(node("Relu", ["h"], ["g"], name="r"))
    place = plant(model)
    (tmp_path.parent / "secret").write_bytes(b"\0" * 20)
    problems = refuse(model)
    assert [*problems] == [place]
    others = " and of 1 more" if "else_branch" in place else ""
    assert f"the data of this tensor{others} lie outside of the file" in problems[place]
    assert SECRET not in problems[place]


def test_a_sparse_initializer_is_refused_by_name(graphs: Any, refuse: Refuse) -> None:
    model = graphs.around(node("Relu", ["h"], ["g"], name="r"))
    dense = model.graph.initializer.pop(2)
    sparse = model.graph.sparse_initializer.add(dims=dense.dims)
    values = numpy_helper.to_array(dense).ravel()
    sparse.values.CopyFrom(numpy_helper.from_array(values, dense.name))
    sparse.indices.CopyFrom(numpy_helper.from_array(np.arange(len(values))))
    problems = refuse(model)
    assert "store it as a dense one" in problems[f"/model/graph/sparse_initializer/{dense.name}"]


@pytest.mark.parametrize("keep", [0, 1, 0.3, 0.9, 0.999])
def test_a_truncated_file_is_refused(keep: float, graphs: Any, refuse: Refuse) -> None:
    data = graphs.around(node("Relu", ["h"], ["g"], name="r")).SerializeToString()
    size = int(keep if keep == 1 else len(data) * keep)
    assert next(iter(refuse(data[:size]))).startswith("/model")


@pytest.mark.parametrize("data", [b"not a model", b"\x89PNG\r\n\x1a\n" + bytes(64), bytes(1000)])
def test_a_file_of_another_kind_is_refused(data: bytes, refuse: Refuse) -> None:
    assert next(iter(refuse(data))).startswith("/model")


def test_a_file_that_is_too_large_is_refused_unread(refuse: Refuse, tmp_path: Path) -> None:
    path = tmp_path / "large.onnx"
    with path.open("wb") as file:
        file.truncate(MAX_MODEL_BYTES + 1)
    assert "at most" in refuse(path)["/model"]


def test_a_node_that_reads_what_nobody_makes_is_refused(graphs: Any, refuse: Refuse) -> None:
    problems = refuse(graphs.around(node("Relu", ["nowhere"], ["g"], name="r")))
    assert "checker" in problems["/model/graph"]


@pytest.mark.parametrize("kind", [TensorProto.UNDEFINED, 99])
def test_weights_of_an_unknown_type_are_refused(kind: int, graphs: Any, refuse: Refuse) -> None:
    model = graphs.around(node("Relu", ["h"], ["g"], name="r"))
    model.graph.initializer[0].data_type = kind
    assert refuse(model)


def test_an_operator_that_does_not_exist_is_refused(graphs: Any, refuse: Refuse) -> None:
    problems = refuse(graphs.around(node("Frobnicate", ["h"], ["g"], name="r")))
    assert "Frobnicate" in problems["/model/graph"]


def test_shapes_that_do_not_meet_are_refused(graphs: Any, refuse: Refuse) -> None:
    model = graphs.around(node("Relu", ["h"], ["g"], name="r"))
    model.graph.initializer[2].CopyFrom(numpy_helper.from_array(np.ones((7, 3), np.float32), "v"))
    assert next(iter(refuse(model))).startswith("/model")


def test_axes_that_are_not_fixed_are_all_named(graphs: Any, refuse: Refuse) -> None:
    pooled = node("ReduceMean", ["s"], ["h"], axes=[1], keepdims=0, name="mean")
    model = graphs.model(
        [node("MatMul", ["x", "w"], ["s"], name="m"), pooled, node("Relu", ["h"], ["y"])],
        {"w": np.ones((6, 3), np.float32)},
        x=("batch", "time", 6),
    )
    problems = refuse(model)
    assert 'axis 1 of input "x" is not fixed' in problems["/model/graph/input/x/shape/1"]


def test_a_string_input_is_refused(graphs: Any, refuse: Refuse) -> None:
    model = graphs.model(
        [
            node("Cast", ["x"], ["c"], to=TensorProto.FLOAT, name="parse"),
            node("Gemm", ["c", "w"], ["y"], name="head"),
        ],
        {"w": np.ones((6, 3), np.float32)},
        x_type=TensorProto.STRING,
    )
    assert "/model/graph/input/x" in refuse(model)


def test_a_fixed_batch_axis_is_freed(graphs: Any, accept: Callable[..., Any]) -> None:
    model = graphs.model(
        [
            node("Reshape", ["x", "shape"], ["r"], name="r"),
            node("Gemm", ["r", "w"], ["y"], name="head"),
        ],
        {"w": np.ones((6, 3), np.float32), "shape": np.array([1, 6])},
        x=(1, 2, 3),
        y=(1, 3),
    )
    prepared = accept(model)
    assert prepared.signature.inputs[0].shape == (2, 3)
    assert any("fixed size 1" in note for note in prepared.notes)


def test_a_fixed_batch_axis_that_the_graph_needs_is_refused(graphs: Any, refuse: Refuse) -> None:
    model = graphs.model(
        [
            node("ReduceMean", ["x"], ["mean"], axes=[0], keepdims=1, name="mean"),
            node("Sub", ["x", "mean"], ["c"], name="centre"),
            node("Gemm", ["c", "w"], ["y"], name="head"),
        ],
        {"w": np.ones((6, 3), np.float32)},
        x=(2, 6),
        y=(2, 3),
    )
    problems = refuse(model)
    assert (
        "dynamic batch axis (dynamic_axes / dynamic_shapes)"
        in (problems["/model/graph/input/x/shape/0"])
    )


def test_an_output_without_one_row_a_sample_is_refused(graphs: Any, refuse: Refuse) -> None:
    model = graphs.model(
        [
            node("Gemm", ["x", "w"], ["h"], name="head"),
            node("ReduceMean", ["h"], ["y"], axes=[0], keepdims=0, name="mean"),
        ],
        {"w": np.ones((6, 3), np.float32)},
        y=(3,),
    )
    assert "axis 0" in refuse(model)["/spec/output"]
