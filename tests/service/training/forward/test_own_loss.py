"""A loss that the model computes itself: what is its label, and what of it is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from graph_parts import normal
from onnx import TensorProto, helper
from own_losses import FEATURES, OUTPUTS, own_loss, squared

node = helper.make_node
OWN = {"loss": "output", "loss_output": "loss"}
ROWS = 8
Accept = Callable[..., Any]
Refuse = Callable[..., dict[str, str]]


@pytest.mark.parametrize(
    ("tail", "shape"),
    [
        (squared(), ()),
        (squared("ReduceMean", axes=[1]), ("batch",)),
    ],
    ids=["of the batch", "of each sample"],
)
def test_the_models_own_squared_error_trains_as_mse_does(
    tail: list[Any], shape: tuple[str, ...], accept: Accept, trainer: Any, graphs: Any
) -> None:
    model = own_loss(*tail, loss=shape)
    plain = own_loss(label=None, outputs=("y",))
    x, t = normal(ROWS, FEATURES, seed=3), normal(ROWS, OUTPUTS, seed=4)
    found = []
    for uploaded, spec in ((model, OWN), (plain, {"loss": "mse"})):
        made = trainer(accept(uploaded, **spec).artifacts)
        losses = [made.step(x, t, learning_rate=0.1) for _ in range(3)]
        loss, output = made.evaluate(x, t)
        found.append([*losses, loss, *output.ravel(), *made.parameters()["w"].ravel()])
    np.testing.assert_allclose(found[0], found[1], rtol=1e-5)


def test_the_input_that_only_the_loss_reads_is_the_label(accept: Accept) -> None:
    made = accept(own_loss(*squared()), **OWN)
    assert [value.name for value in made.signature.inputs] == ["x"]
    target = made.signature.target
    assert (target.name, target.dtype, target.shape) == ("t", "float32", (OUTPUTS,))
    base = onnx.load(made.base_model).graph
    assert [value.name for value in base.input] == ["x"]
    assert [value.name for value in base.output] == ["y"]
    assert made.notes == (
        'versions do not have the output "loss" and the input "t", which is the label',
    )


def test_class_indices_have_the_classes_of_the_spec(accept: Accept, refuse: Refuse) -> None:
    tail = node("SoftmaxCrossEntropyLoss", ["y", "t"], ["loss"], name="entropy")
    model = own_loss(tail, label=("batch",), label_type=TensorProto.INT64)
    assert accept(model, **OWN).signature.target.num_classes is None
    named = accept(model, classes=("a", "b", "c"), **OWN).signature.target
    assert (named.num_classes, named.classes) == (3, ("a", "b", "c"))
    refused = refuse(own_loss(*squared()), classes=("a", "b", "c"), **OWN)
    assert "no class index" in refused["/spec/classes"]


def test_a_loss_without_a_label_trains_on_inputs_alone(accept: Accept, trainer: Any) -> None:
    model = own_loss(
        node("Mul", ["y", "y"], ["square"], name="square"),
        node("ReduceMean", ["square"], ["loss"], name="mean", keepdims=0),
        label=None,
    )
    made = accept(model, **OWN)
    assert made.signature.target.is_empty
    x, none = normal(ROWS, FEATURES, seed=3), np.empty((ROWS, 0), np.float32)
    trained = trainer(made.artifacts)
    first = trained.step(x, none, learning_rate=0.1)
    assert trained.evaluate(x, none)[0] < first


def test_weights_that_only_the_loss_reads_train_and_are_exported(
    accept: Accept, trainer: Any, tmp_path: Any
) -> None:
    tail = [
        node("MatMul", ["y", "decoder"], ["again"], name="decode"),
        node("Sub", ["x", "again"], ["error"], name="error"),
        node("Mul", ["error", "error"], ["square"], name="square"),
        node("ReduceMean", ["square"], ["loss"], name="mean", keepdims=0),
    ]
    decoder = normal(OUTPUTS, FEATURES, seed=5)
    made = accept(own_loss(*tail, label=None, constants={"decoder": decoder}), **OWN)
    assert "decoder" in made.trainable
    trained = trainer(made.artifacts)
    trained.step(normal(ROWS, FEATURES), np.empty((ROWS, 0), np.float32), learning_rate=0.1)
    trained.engine.export(tmp_path / "model.onnx")
    onnx.checker.check_model(tmp_path / "model.onnx")
    exported = onnx.load(tmp_path / "model.onnx").graph
    after = {t.name: onnx.numpy_helper.to_array(t) for t in exported.initializer}["decoder"]
    assert np.abs(after - decoder).max() > 0


def test_the_batch_is_not_counted_in_the_label(accept: Accept) -> None:
    """PyTorch's dynamo exporter counts in the last input."""
    model = own_loss(*squared())
    counted = [
        node("Shape", ["t"], ["rows"], name="rows", start=0, end=1),
        node("Concat", ["rows", "width"], ["shape"], name="shape", axis=0),
        node("Reshape", ["g", "shape"], ["g2"], name="reshape"),
    ]
    nodes = list(model.graph.node)
    last = next(node for node in nodes if node.name == "last")
    last.input[0] = "g2"
    nodes[2:2] = counted
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([5]), "width"))
    made = accept(model, **OWN)
    assert made.signature.target.name == "t"
    assert [value.name for value in onnx.load(made.base_model).graph.input] == ["x"]


@pytest.mark.parametrize("label", [("batch", OUTPUTS), None], ids=["label", "no label"])
def test_an_input_of_which_only_the_size_is_read_is_no_label(
    label: tuple[int | str, ...] | None, accept: Accept
) -> None:
    tail = squared()
    if label is None:
        tail = [
            node("Mul", ["y", "y"], ["square"], name="square"),
            node("ReduceMean", ["square"], ["loss"], name="mean", keepdims=0),
        ]
    model = own_loss(*tail, label=label, constants={"width": np.array([FEATURES])})
    ids = helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", 5])
    model.graph.input.insert(0, ids)
    model.graph.node[0].input[0] = "rows_of_x"
    counted = [
        node("Shape", ["input_ids"], ["rows"], name="rows", start=0, end=1),
        node("Concat", ["rows", "width"], ["shape"], name="shape", axis=0),
        node("Reshape", ["x", "shape"], ["rows_of_x"], name="reshape"),
    ]
    nodes = [*counted, *model.graph.node]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    made = accept(model, **OWN)
    assert [value.name for value in made.signature.inputs] == ["x"]
    assert made.signature.target.name == ("" if label is None else "t")
    assert [value.name for value in onnx.load(made.base_model).graph.input] == ["x"]
    assert any("were dropped: input_ids" in note for note in made.notes)


@pytest.mark.parametrize(
    ("tail", "loss", "detail"),
    [
        ([node("Sub", ["y", "t"], ["loss"], name="error")], "loss", "no scalar: two samples give"),
        (squared(), "lost", 'no node of the graph makes "lost"; the outputs are: y, loss'),
        (squared(), "y", '"y" is no scalar'),
        (
            [node("ReduceMean", ["t"], ["loss"], name="mean", keepdims=0)],
            "loss",
            "smooth path",
        ),
        (
            [
                node("ArgMax", ["y"], ["best"], name="best", axis=1),
                node("Cast", ["best"], ["number"], name="number", to=TensorProto.FLOAT),
                node("Sub", ["number", "t0"], ["error"], name="error"),
                node("ReduceMean", ["error"], ["loss"], name="mean", keepdims=0),
            ],
            "loss",
            "smooth path",
        ),
    ],
    ids=["a matrix", "a wrong name", "the output", "the label alone", "no slope"],
)
def test_a_loss_that_cannot_train_is_refused_with_the_reason(
    tail: list[Any], loss: str, detail: str, refuse: Refuse
) -> None:
    shape = () if loss == "loss" else ("batch",)
    model = own_loss(*tail, loss=shape, constants={"t0": np.zeros(1, np.float32)})
    problems = refuse(model, loss="output", loss_output=loss, output="y" if loss != "y" else "g")
    assert any(detail in problem for problem in problems.values()), problems


def test_a_loss_of_integers_is_refused(refuse: Refuse) -> None:
    tail = node("Size", ["y"], ["loss"], name="size")
    problems = refuse(own_loss(tail, loss_type=TensorProto.INT64), **OWN)
    assert problems["/spec/loss/output"] == '"loss" is int64; name a float32 tensor, the loss'


def test_an_output_beside_the_loss_is_needed_and_several_must_be_chosen(refuse: Refuse) -> None:
    problems = refuse(own_loss(*squared(), outputs=("loss",)), **OWN)
    assert "no output beside its loss" in problems["/spec/output"]
    problems = refuse(own_loss(*squared(), outputs=("y", "loss", "h")), **OWN)
    assert problems["/spec/output"].endswith("output: y, h")
    problems = refuse(own_loss(*squared()), output="loss", **OWN)
    assert '"loss" is the loss' in problems["/spec/output"]


def test_two_inputs_of_the_loss_alone_are_refused(refuse: Refuse) -> None:
    model = own_loss(*squared())
    model.graph.input.append(
        helper.make_tensor_value_info("weight", TensorProto.FLOAT, ["batch", OUTPUTS])
    )
    model.graph.node[-2].input[1] = "weight"
    assert '"t", "weight"' in refuse(model, **OWN)["/spec/loss/output"]


def test_a_label_of_another_type_is_refused(refuse: Refuse) -> None:
    tail = [node("Cast", ["t"], ["u"], name="cast", to=TensorProto.FLOAT), *squared()]
    tail[1].input[1] = "u"
    problems = refuse(own_loss(*tail, label_type=TensorProto.DOUBLE), **OWN)
    assert "cast it inside the model" in problems["/model/graph/input/t"]
