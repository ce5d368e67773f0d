"""A model is brought into one form before anything is mended."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from service.training.protocol.messages.preparation import Prepared

node = helper.make_node
Accept = Callable[..., Prepared]


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


def spread(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def test_weights_in_constant_nodes_train(graphs: Any, accept: Accept) -> None:
    constant = node("Constant", [], ["w"], name="c", value=numpy_helper.from_array(spread(6, 3)))
    head = node("MatMul", ["x", "w"], ["y"], name="head")
    assert accept(graphs.model([constant, head], {})).trainable == ("w",)


def test_local_functions_are_inlined(graphs: Any, accept: Accept) -> None:
    body = [node("MatMul", ["a", "b"], ["m"]), node("Softplus", ["m"], ["o"])]
    function = helper.make_function(
        "own", "Dense", ["a", "b"], ["o"], body, [helper.make_opsetid("", 17)]
    )
    call = node("Dense", ["x", "w"], ["y"], name="call", domain="own")
    prepared = accept(
        graphs.model([call], {"w": spread(6, 3)}, functions=[function], domains=["own"])
    )
    assert prepared.trainable == ("w",)
    assert any("inlined" in note for note in prepared.notes)


def test_nodes_without_names_and_with_equal_names_are_taken(graphs: Any, accept: Accept) -> None:
    model = graphs.around(
        node("Softplus", ["h"], ["h1"]), node("Elu", ["h1"], ["h2"]), node("Selu", ["h2"], ["g"])
    )
    model.graph.node[2].name = model.graph.node[3].name = "same"
    assert accept(model).trainable == ("w", "b", "v")


def test_nodes_are_put_in_order_unless_they_go_round(graphs: Any, accept: Accept) -> None:
    """As `onnxruntime.transformers.float16` writes them."""
    model = graphs.around(node("Softplus", ["h"], ["g"], name="late"))
    nodes = [*model.graph.node][::-1]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    assert accept(model).trainable == ("w", "b", "v")
    model.graph.node[1].input[0] = "y"
    with pytest.raises(AssertionError, match="must be topologically sorted"):
        accept(model)


def test_initializers_that_are_listed_as_inputs_are_no_inputs(graphs: Any, accept: Accept) -> None:
    model = graphs.model([node("MatMul", ["x", "w"], ["y"], name="head")], {"w": spread(6, 3)})
    model.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [6, 3]))
    model.ir_version = 3
    prepared = accept(model)
    assert [spec.name for spec in prepared.signature.inputs] == ["x"]
    assert prepared.trainable == ("w",)


def test_an_input_that_the_output_does_not_need_is_dropped(graphs: Any, accept: Accept) -> None:
    model = graphs.model([node("MatMul", ["x", "w"], ["y"], name="head")], {"w": spread(6, 3)})
    model.graph.input.append(helper.make_tensor_value_info("idle", TensorProto.FLOAT, ["b", "t"]))
    prepared = accept(model)
    assert [spec.name for spec in prepared.signature.inputs] == ["x"]
    assert any("idle" in note for note in prepared.notes)


def test_an_input_of_which_only_the_size_is_read_stays_one_of_each_sample(
    graphs: Any, accept: Accept, trainer: type, tmp_path: Path
) -> None:
    """The exported model counts its rows. The step knows the batch, and reads nothing of it."""
    model = graphs.model(
        [
            node("Shape", ["ids"], ["rows"], name="rows", start=0, end=1),
            node("Concat", ["rows", "width"], ["shape"], name="shape", axis=0),
            node("MatMul", ["x", "w"], ["h"], name="head"),
            node("Reshape", ["h", "shape"], ["y"], name="reshape"),
        ],
        {"w": spread(6, 3), "width": np.array([3])},
    )
    ids = helper.make_tensor_value_info("ids", TensorProto.INT64, ["batch", 5])
    model.graph.input.insert(0, ids)
    prepared = accept(model)
    assert [spec.name for spec in prepared.signature.inputs] == ["ids", "x"]
    engine = trainer(prepared.artifacts)
    feeds = np.zeros((4, 5), np.int64), ones(4, 6), ones(4, 3)
    first = engine.step(*feeds, learning_rate=0.01)
    loss, output = engine.evaluate(*feeds)
    assert loss < first
    engine.engine.export(tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    (exported,) = session.run(None, {"ids": feeds[0], "x": feeds[1]})
    np.testing.assert_allclose(exported, output, rtol=1e-6)


def test_a_mean_that_a_ceiling_lets_go_beyond_its_pads_is_of_what_it_holds(
    graphs: Any, accept: Accept, trainer: type
) -> None:
    """As in PyTorch. ONNX Runtime 1.19.2 divides its sum by the whole kernel."""
    options: dict[str, Any] = {"ceil_mode": 1, "count_include_pad": 1}
    pool = node(
        "AveragePool", ["row"], ["means"], kernel_shape=[4], strides=[3], pads=[1, 1], **options
    )
    nodes = [
        node("Unsqueeze", ["x", "one"], ["row"]),
        pool,
        node("Flatten", ["means"], ["flat"]),
        node("MatMul", ["flat", "w"], ["y"]),
    ]
    x, w = spread(4, 6), spread(3, 3)
    engine = trainer(accept(graphs.model(nodes, {"w": w, "one": np.array([1])})).artifacts)
    padded = np.pad(x, ((0, 0), (1, 1)))
    means = [padded[:, at : at + 4].mean(axis=1) for at in (0, 3, 6)]
    _, output = engine.evaluate(x, spread(4, 3))
    np.testing.assert_allclose(output, np.stack(means, axis=1) @ w, rtol=0, atol=1e-5)


def test_a_size_that_the_runtime_rounds_up_is_no_smaller_one(
    graphs: Any, accept: Accept, trainer: type
) -> None:
    """6 · 5/6 is 5 in the runtime's float32, and less in float64."""
    nodes = [
        node("Unsqueeze", ["x", "one"], ["row"]),
        node("Resize", ["row", "", "scales"], ["fewer"], mode="linear"),
        node("Conv", ["fewer", "v"], ["c"]),
        node("Reshape", ["c", "rows"], ["flat"]),
        node("MatMul", ["flat", "w"], ["y"]),
    ]
    weights = {"v": spread(2, 1, 2), "w": spread(8, 3), "scales": np.float32([1, 1, 5 / 6])}
    weights |= {"one": np.array([1]), "rows": np.array([-1, 8])}
    engine = trainer(accept(graphs.model(nodes, weights)).artifacts)
    assert np.isfinite(engine.step(spread(4, 6), spread(4, 3), learning_rate=0.1))


def test_a_transpose_that_moves_nothing_beside_a_gemm_is_no_swap(
    graphs: Any, accept: Accept, trainer: type
) -> None:
    model = graphs.around(node("Transpose", ["h"], ["g"], name="idle", perm=[0, 1]))
    engine = trainer(accept(model).artifacts)
    assert np.isfinite(engine.step(ones(4, 6), ones(4, 3), learning_rate=0.1))


@pytest.mark.parametrize("kind", ["MatMul", "Gemm"])
def test_a_transpose_without_perm_beside_a_product_swaps(
    kind: str, graphs: Any, accept: Accept, trainer: type
) -> None:
    nodes = [
        node("Transpose", ["weight"], ["turned"], name="turn"),
        node(kind, ["x", "turned"], ["y"], name="head"),
    ]
    model = graphs.model(nodes, {"weight": spread(3, 6)})
    engine = trainer(accept(model).artifacts)
    x, target = spread(4, 6), spread(4, 3)
    _, output = engine.evaluate(x, target)
    np.testing.assert_allclose(output, _run(model, x), rtol=0, atol=1e-5)
    assert np.isfinite(engine.step(x, target, learning_rate=0.1))


@pytest.mark.parametrize(
    ("value", "trained"), [(ones(3), ("b", "w", "c")), (spread(3), ("b", "w"))]
)
def test_equal_parameters_are_untied_only_if_they_are_of_one_value(
    value: np.ndarray, trained: tuple[str, ...], graphs: Any, accept: Accept
) -> None:
    nodes = [
        node("Identity", ["b"], ["c"], name="merged"),
        node("Gemm", ["x", "w", "b"], ["h"], name="first"),
        node("Add", ["h", "c"], ["y"], name="second"),
    ]
    prepared = accept(graphs.model(nodes, {"b": value, "w": spread(6, 3)}))
    assert prepared.trainable == trained


def test_scalars_statistics_and_masks_do_not_train(graphs: Any, accept: Accept) -> None:
    nodes = [
        node("BatchNormalization", ["h", "s", "t", "mean", "var"], ["n"], name="bn"),
        node("Mul", ["n", "half"], ["m"], name="scale"),
        node("Add", ["m", "mask"], ["k"], name="mask"),
        node("Softmax", ["k"], ["g"], name="attend"),
    ]
    mask = np.array([0, 0, -np.inf, 0, 0], np.float32)
    model = graphs.around(
        *nodes, s=ones(5), t=ones(5), mean=ones(5), var=ones(5), half=np.float32(0.5), mask=mask
    )
    prepared = accept(model)
    assert set(prepared.trainable) == {"w", "b", "v", "s", "t"}
    assert set(accept(model, trainable=("*",)).trainable).isdisjoint({"mean", "var", "half"})


def test_frozen_batch_statistics_do_not_move(graphs: Any, accept: Accept, trainer: type) -> None:
    normalize = node("BatchNormalization", ["h", "s", "t", "mean", "var"], ["g"], name="bn")
    statistics = {"mean": spread(5), "var": ones(5) * 2}
    model = graphs.around(normalize, s=ones(5), t=ones(5), **statistics)
    prepared = accept(model, optimizer="sgd", trainable=("v",))
    engine = trainer(prepared.artifacts)
    x, target = spread(8, 6) * 3, spread(8, 3)
    for _ in range(3):
        engine.step(x, target, learning_rate=0.0)
    _, output = engine.evaluate(x, target)
    expected = _run(model, x)
    np.testing.assert_allclose(output, expected, rtol=0, atol=1e-5)


def _run(model: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    import onnxruntime

    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, {"x": x})[0]
