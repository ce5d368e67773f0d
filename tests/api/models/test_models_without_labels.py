"""Autoencoders, whose samples have no labels: of numbers, standardized, of windows, of pictures."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from graph_parts import normal
from onnx import TensorProto, helper, numpy_helper
from pictures import SIDE, photo
from support import Served

FEATURES, LENGTH = 12, 6
node = helper.make_node


def autoencoder(*shape: int) -> bytes:
    """`x` → 3 numbers → `y` of the same shape, and `loss`, which is the mean squared difference."""
    size = int(np.prod(shape))
    weights = {"w": normal(size, 3) * 0.3, "v": normal(3, size, seed=2) * 0.3}
    numbers = weights | {"rows": np.array([-1, *shape], np.int64)}
    graph = helper.make_graph(
        [
            node("Flatten", ["x"], ["flat"], name="flatten"),
            node("MatMul", ["flat", "w"], ["h"], name="first"),
            node("MatMul", ["h", "v"], ["decoded"], name="last"),
            node("Reshape", ["decoded", "rows"], ["y"], name="shape"),
            node("Sub", ["y", "x"], ["error"], name="error"),
            node("Mul", ["error", "error"], ["square"], name="square"),
            node("ReduceMean", ["square"], ["loss"], name="mean", keepdims=0),
        ],
        "autoencoder",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", *shape])],
        [
            helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", *shape]),
            helper.make_tensor_value_info("loss", TensorProto.FLOAT, []),
        ],
        [numpy_helper.from_array(array, name) for name, array in numbers.items()],
    )
    opset = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString()


def rows(count: int, seed: int) -> np.ndarray:
    """Numbers that three others determine."""
    return (normal(count, 3, seed=seed) @ normal(3, FEATURES, seed=5)).astype(np.float32)


def send_arrays(served: Served, model: str) -> None:
    for split, count in (("train", 60), ("validation", 20)):
        served.upload(model, split=split, x=rows(count, count)).raise_for_status()


def send_recording(served: Served, model: str) -> None:
    times = np.arange(400)
    lines = ["a,b", *(f"{np.sin(t / 5)},{np.cos(t / 9)}" for t in times)]
    headers = {"Content-Type": "text/csv"}
    for split, part in (("train", lines[:300]), ("validation", ["a,b", *lines[300:]])):
        text = "\n".join(part).encode()
        path = f"/v1/models/{model}/samples"
        answer = served.http.post(path, content=text, headers=headers, params={"split": split})
        answer.raise_for_status()


def send_pictures(served: Served, model: str) -> None:
    for split, count in (("train", 30), ("validation", 10)):
        files = [
            ("file", (f"{split}{n}.png", photo(40 + 4 * n, n + 100 * (split == "train"))))
            for n in range(count)
        ]
        path = f"/v1/models/{model}/samples"
        served.http.post(path, files=files, params={"split": split}).raise_for_status()


KINDS: dict[str, tuple[tuple[int, ...], dict[str, Any] | None, Any]] = {
    "arrays": ((FEATURES,), None, send_arrays),
    "standardized": ((FEATURES,), {"kind": "standardize"}, send_arrays),
    "windows": ((LENGTH, 2), {"kind": "windows"}, send_recording),
    "pictures": ((1, SIDE, SIDE), {"kind": "image", "channels": "gray"}, send_pictures),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_without_labels_trains_is_judged_and_is_fetched(served: Served, kind: str) -> None:
    shape, preprocess, send = KINDS[kind]
    spec = {} if preprocess is None else {"preprocess": preprocess}
    model = f"ae-{kind}"
    served.register(model, autoencoder(*shape), loss={"output": "loss"}, **spec)
    send(served, model)

    job = served.train(model)

    assert job["restarts"] == 0
    assert job["metrics"]["validation"]["loss"] < job["metrics"]["baseline"]["loss"] * 0.9
    version = served.http.get(f"/v1/models/{model}/versions/2").json()
    assert version["promoted"], version["reason"]
    content = served.http.get(f"/v1/models/{model}/latest/model.onnx").content
    assert [value.name for value in onnx.load_model_from_string(content).graph.output] == ["y"]
    session = onnxruntime.InferenceSession(content)
    (decoded,) = session.run(None, {"x": np.zeros((2, *shape), np.float32)})
    assert decoded.shape == (2, *shape)
    sample = served.http.get(f"/v1/models/{model}/samples", params={"limit": 1}).json()["items"][0]
    assert sample["label"] is None or sample["label"] == []
    compared = served.http.get(f"/v1/models/{model}/versions/1/comparison/2")
    assert compared.status_code == 200, compared.text
