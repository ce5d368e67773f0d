"""Heads that get rows for other classes: which can, what stays, and where a new row starts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hand_made import Graphs
from onnx import helper

from service.training.engines import checkpoint
from service.training.engines.manifest import read_manifest
from service.training.errors import GraphRefused
from service.training.forward import head, trial
from service.training.forward.origins import recorded

EXPORTS = Path(__file__).parents[1] / "graphs"
IDS = (2, 0, 1, 3, 7)
"""Of a model of four classes: three in another order and the fourth, then one that is new."""
RNG = np.random.default_rng(4)
Nodes = list[tuple[str, list[str], str, dict[str, Any]]]


def model_of(nodes: Nodes, weights: dict[str, Any], *, shape: tuple[int, ...]) -> onnx.ModelProto:
    """From x (batch, *shape) to y (batch, 4)."""
    made = [helper.make_node(op, i, [o], name=o, **a) for op, i, o, a in nodes]
    return Graphs().model(made, weights, x=("batch", *shape), y=("batch", 4))


def normal(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


W, B, KERNEL = normal(6, 4), normal(4), normal(4, 6, 1, 1)
CONV: Nodes = [("Conv", ["x", "w", "b"], "maps", {})]
POOL: Nodes = [("GlobalAveragePool", ["maps"], "pooled", {})]
HEADS: dict[str, tuple[Nodes, dict[str, Any], tuple[int, ...]]] = {
    "Gemm": ([("Gemm", ["x", "w", "b"], "y", {})], {"w": W, "b": B}, (6,)),
    "Gemm without a bias": ([("Gemm", ["x", "w"], "y", {})], {"w": W}, (6,)),
    "Gemm of rows": (
        [("Gemm", ["x", "w", "b"], "y", {"transB": 1})],
        {"w": W.T.copy(), "b": B},
        (6,),
    ),
    "MatMul and Add": (
        [("MatMul", ["x", "w"], "product", {}), ("Add", ["product", "b"], "y", {})],
        {"w": W, "b": B},
        (6,),
    ),
    "MatMul of a transposed weight, and Add": (
        [
            ("Transpose", ["w"], "turned", {"perm": [1, 0]}),
            ("MatMul", ["x", "turned"], "product", {}),
            ("Add", ["b", "product"], "y", {}),
        ],
        {"w": W.T.copy(), "b": B},
        (6,),
    ),
    "Conv, pool and Flatten": (
        [*CONV, *POOL, ("Flatten", ["pooled"], "y", {})],
        {"w": KERNEL, "b": B},
        (6, 3, 3),
    ),
    "Conv, pool and a Reshape that names the classes": (
        [*CONV, *POOL, ("Reshape", ["pooled", "shape"], "y", {})],
        {"w": KERNEL, "b": B, "shape": np.array([-1, 4])},
        (6, 3, 3),
    ),
}
REFUSED: dict[str, tuple[Nodes, dict[str, Any], str]] = {
    "an activation": (
        [("Gemm", ["x", "w"], "sums", {}), ("Relu", ["sums"], "y", {})],
        {"w": W},
        "Relu 'y'",
    ),
    "weights that another layer has too": (
        [
            ("MatMul", ["x", "square"], "inner", {}),
            ("Add", ["inner", "b"], "sums", {}),
            ("MatMul", ["sums", "square"], "product", {}),
            ("Add", ["product", "b"], "y", {}),
        ],
        {"square": normal(4, 4), "b": B},
        "shares",
    ),
    "a scale for each class": (
        [("Gemm", ["x", "w"], "sums", {}), ("Mul", ["sums", "b"], "y", {})],
        {"w": W, "b": B},
        "Mul 'y'",
    ),
}


@pytest.fixture(params=sorted(HEADS))
def classifier(request: pytest.FixtureRequest) -> onnx.ModelProto:
    nodes, weights, shape = HEADS[request.param]
    return model_of(nodes, weights, shape=shape)


def logits(model: onnx.ModelProto, x: Any) -> Any:
    return trial.run(model, [{"x": x}])[0]


def test_classes_that_stay_keep_their_logits_and_a_new_one_never_wins(
    classifier: onnx.ModelProto,
) -> None:
    changed, known = head.change(classifier, None, IDS)
    dims = [d.dim_value for d in classifier.graph.input[0].type.tensor_type.shape.dim]
    x = np.random.default_rng(0).standard_normal((500, *dims[1:])).astype(np.float32) * 9

    before, after = logits(classifier, x), logits(changed, x)

    assert [*known] == [0, 1, 2, 3]
    assert after.shape == (500, 5)
    np.testing.assert_allclose(after[:, :4], before[:, IDS[:4]], rtol=1e-6, atol=1e-5)
    assert set(after.argmax(axis=1)) == {0, 1, 2, 3}
    np.testing.assert_allclose(after[:, 4], before.mean(axis=1), rtol=1e-4, atol=1e-4)


def test_a_class_that_goes_takes_its_logit_along(classifier: onnx.ModelProto) -> None:
    dims = [d.dim_value for d in classifier.graph.input[0].type.tensor_type.shape.dim]
    x = np.random.default_rng(0).standard_normal((5, *dims[1:])).astype(np.float32)

    changed, _ = head.change(classifier, None, (0, 1, 3))

    expected = logits(classifier, x)[:, (0, 1, 3)]
    np.testing.assert_allclose(logits(changed, x), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("what", sorted(REFUSED))
def test_a_head_that_cannot_get_rows_is_named_with_the_remedy(what: str) -> None:
    nodes, weights, named = REFUSED[what]
    shape = (4,) if "square" in weights else (6,)

    with pytest.raises(GraphRefused) as refused:
        head.change(model_of(nodes, weights, shape=shape), None, IDS)

    assert named in refused.value.detail
    assert head.REMEDY in refused.value.detail


@pytest.mark.parametrize(
    "name",
    ["mlp_ts13", "mlp_dy18_fixed", "cnn_bn_live_ts13", "group_norm_dy21", "copies_dy20"],
)
def test_a_real_export_is_prepared_with_other_classes(
    name: str, accept: Callable[..., Any]
) -> None:
    prepared = accept(
        EXPORTS / f"{name}.onnx", loss="cross_entropy", engine="sessions", class_ids=IDS
    )

    made = read_manifest(Path(prepared.artifacts.manifest))
    assert prepared.signature.target.num_classes == len(IDS)
    assert made.head is not None
    assert (made.head.classes, made.head.fresh) == (IDS, (7,))
    start = checkpoint.read_head(Path(prepared.artifacts.checkpoint))
    assert (start.classes, start.fresh) == (IDS, (7,))
    inference = onnx.load_model(prepared.artifacts.inference_model)
    assert made.head.features in {name for node in inference.graph.node for name in node.input}


def test_what_was_a_parameter_is_known_after_classes_have_changed() -> None:
    """PyTorch's exporter records it beside shapes: here of a scale that it has given more axes."""
    nodes: Nodes = [("Mul", ["x", "val_1"], "h", {}), ("Gemm", ["h", "w", "b"], "y", {})]
    model = model_of(nodes, {"val_1": normal(1, 6), "w": W, "b": B}, shape=(6,))
    model.graph.metadata_props.add(
        key="pkg.torch.export.ExportedProgram.graph_signature",
        value="scale: PARAMETER target='scale'\nw: PARAMETER target='w'\nb: PARAMETER target='b'",
    )
    for name, sizes in (("val_1", [1, 6]), ("w", [6, 4])):
        value = helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, sizes)
        source = "['scale']" if name == "val_1" else f"['{name}']"
        value.metadata_props.add(key="pkg.onnxscript.optimizer.folded_from", value=source)
        model.graph.value_info.append(value)

    changed, _ = head.change(model, None, IDS)

    assert recorded(changed) == recorded(model) == {"val_1": True, "w": True, "b": True}


def test_a_head_that_does_not_train_is_refused(refuse: Callable[..., Any]) -> None:
    problems = refuse(
        EXPORTS / "mlp_ts13.onnx",
        loss="cross_entropy",
        engine="sessions",
        class_ids=IDS,
        trainable=("0.*",),
    )

    assert "do not train" in problems[head.PLACE]
