"""Files that leave all axes open, as Optimum writes them: the preprocessing says their sizes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from pictures import photo
from support import Served, mlp

OPEN = ("batch", "num_channels", "height", "width")
PREPROCESS: dict[str, Any] = {"kind": "image", "size": [8, 12], "channels": "gray"}
SHADES = {"dark": 60, "bright": 190}


@pytest.fixture(autouse=True)
def _empty(served: Served) -> Iterator[None]:
    yield
    served.clear()


def pixel_model(*axes: str | int, name: str = "pixel_values", seed: int = 0) -> bytes:
    """A convolution, its mean, and two logits: of pictures of any size. axes: of its input."""
    random = np.random.default_rng(seed)
    weights = {
        "conv.weight": random.standard_normal((4, 1, 3, 3)) * 0.3,
        "head.weight": random.standard_normal((2, 4)) * 0.3,
        "head.bias": np.zeros(2),
    }
    nodes = [
        helper.make_node("Conv", [name, "conv.weight"], ["c"], "conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"], "relu"),
        helper.make_node("GlobalAveragePool", ["r"], ["p"], "mean"),
        helper.make_node("Flatten", ["p"], ["f"], "flat"),
        helper.make_node("Gemm", ["f", "head.weight", "head.bias"], ["logits"], "head", transB=1),
    ]
    return with_input(nodes, weights, name, *(axes or OPEN))


def with_input(nodes: list[Any], weights: dict[str, Any], name: str, *axes: str | int) -> bytes:
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "g",
        [value(name, TensorProto.FLOAT, axes)],
        [value("logits", TensorProto.FLOAT, ["batch", "labels"])],
        [numpy_helper.from_array(w.astype(np.float32), key) for key, w in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    content: bytes = model.SerializeToString()
    return content


def one_size(side: int, *axes: str | int) -> bytes:
    """A perceptron of pictures of side by side pixels, though its input does not say so."""
    model = onnx.load_from_string(mlp(side * side, 4, 2, inputs="flat"))
    flatten = helper.make_node("Flatten", ["image"], ["flat"], name="flatten")
    model.graph.node.insert(0, flatten)
    del model.graph.input[:]
    shape = axes or ("batch", "channels", "height", "width")
    model.graph.input.append(helper.make_tensor_value_info("image", TensorProto.FLOAT, shape))
    content: bytes = model.SerializeToString()
    return content


def offer(served: Served, model: bytes, path: str = "models", **spec: Any) -> httpx.Response:
    body = {"name": "pixels", "loss": "cross_entropy", "classes": [*SHADES], **spec}
    return served.http.post(
        f"/v1/{path}", data={"spec": json.dumps(body)}, files={"model": ("model.onnx", model)}
    )


def problems(answer: httpx.Response) -> dict[str, str]:
    assert answer.status_code == 422, answer.text
    return {each["pointer"]: each["detail"] for each in answer.json()["errors"]}


def fill(served: Served) -> None:
    for split, seeds in (("train", range(20)), ("validation", range(20, 30))):
        sent = [(label, photo(SHADES[label], seed)) for seed in seeds for label in SHADES]
        answer = served.http.post(
            "/v1/models/pixels/samples",
            data={"samples": json.dumps([{"label": label} for label, _ in sent])},
            files=[("file", ("p.png", content)) for _, content in sent],
            params={"split": split},
        )
        assert answer.status_code == 201, answer.text


def axes_of(served: Served, version: int | str) -> list[int]:
    """Of a version's input, and that it runs in a plain session."""
    path = f"/v1/models/pixels/versions/{version}/model.onnx"
    content = served.http.get(path).raise_for_status().content
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    (value,) = session.get_inputs()
    (logits,) = session.run(None, {value.name: np.zeros((2, *value.shape[1:]), np.float32)})
    assert logits.shape == (2, 2)
    onnx.checker.check_model(onnx.load_from_string(content), full_check=True)
    return value.shape[1:]


def test_pictures_train_a_file_with_open_axes(served: Served) -> None:
    answer = offer(served, pixel_model(), preprocess=PREPROCESS)
    assert answer.status_code == 201, answer.text
    model = answer.json()
    assert model["inputs"][0]["shape"] == [1, 8, 12]
    assert model["notes"][0] == (
        'as preprocess says, axis 1 of input "pixel_values" is 1,'
        ' axis 2 of input "pixel_values" is 8, axis 3 of input "pixel_values" is 12'
    )
    wide = {**PREPROCESS, "size": [16, 16]}
    other = offer(served, pixel_model(), name="wide", preprocess=wide).json()
    assert other["inputs"][0]["shape"] == [1, 16, 16]
    fill(served)
    job = served.train("pixels", epochs=20, batch_size=8, learning_rate=0.03, seed=1)
    assert job["metrics"]["validation"]["accuracy"] == 1.0
    asked = served.http.post(
        "/v1/models/pixels/predict",
        content=photo(190, 99),
        headers={"Content-Type": "image/png"},
    )
    assert asked.json()["predictions"][0]["label"] == "bright", asked.text
    assert axes_of(served, 1) == axes_of(served, job["version"]) == [1, 8, 12]
    added = served.http.post("/v1/models/pixels/classes", json={"name": "gray"})
    assert added.status_code == 201, added.text
    assert served.train("pixels", epochs=1, batch_size=8)["state"] == "succeeded"


def test_the_check_fixes_them_too(served: Served) -> None:
    found = offer(served, pixel_model(), "diagnosis", preprocess=PREPROCESS).json()
    assert (found["ready"], found["problems"]) == (True, [])
    assert found["inputs"][0]["shape"] == [1, 8, 12]
    found = offer(served, pixel_model(), "diagnosis").json()
    assert "spec.preprocess" in found["problems"][0]["detail"]


@pytest.mark.parametrize(
    ("described", "still_open"),
    [
        ({"size": None}, [1, 2, 3]),
        ({"size": [0, 8]}, [1, 2, 3]),
        ({"channels": ["gray"]}, [1, 2, 3]),
        ({"kind": "photo"}, [1, 2, 3]),
        ({"kind": ["image"]}, [1, 2, 3]),
        ({"kind": "windows", "length": 3, "layout": "channels_first", "size": None}, [1, 3]),
    ],
)
def test_axes_that_nothing_says_are_refused(
    served: Served, described: dict[str, Any], still_open: list[int]
) -> None:
    told = problems(offer(served, pixel_model(), preprocess={**PREPROCESS, **described}))
    places = [f"/model/graph/input/pixel_values/shape/{axis}" for axis in still_open]
    assert [place for place in told if "/shape/" in place] == places
    assert "size of images" in told[places[0]]


def test_sizes_that_the_graph_does_not_run_are_refused(served: Served) -> None:
    told = problems(offer(served, one_size(8), preprocess={**PREPROCESS, "size": [8, 9]}))
    assert told["/model"].startswith("ONNX Runtime cannot run the model: ")
    assert told["/spec/preprocess"] == (
        'as preprocess says, axis 1 of input "image" is 1, axis 2 of input "image" is 8,'
        ' axis 3 of input "image" is 9; and so the model does not run'
    )
    assert offer(served, one_size(8), preprocess={**PREPROCESS, "size": [8, 8]}).is_success


def test_sizes_that_the_file_has_otherwise_are_refused(served: Served) -> None:
    model = pixel_model("batch", "num_channels", 8, "width")
    told = problems(offer(served, model, preprocess={**PREPROCESS, "size": [16, 12]}))
    assert told["/spec/preprocess/size"] == (
        "it makes tensors of shape [1, 16, 12] (nchw, gray), the input 'pixel_values' takes"
        " [1, 8, 12]"
    )


def test_a_fixed_batch_of_open_pictures_is_released(served: Served) -> None:
    answer = offer(served, pixel_model(1, *OPEN[1:]), preprocess=PREPROCESS)
    assert answer.status_code == 201, answer.text
    assert answer.json()["inputs"][0]["shape"] == [1, 8, 12]


def test_an_upgrade_is_of_the_size_of_the_samples_unless_it_says_another(served: Served) -> None:
    assert offer(served, pixel_model(), preprocess=PREPROCESS).is_success
    fill(served)
    served.train("pixels", epochs=1, batch_size=8)
    sizes: list[Any] = [({}, [1, 8, 12]), ({"preprocess": {"size": [16, 16]}}, [1, 16, 16])]
    for spec, axes in sizes:
        answer = served.http.put(
            "/v1/models/pixels/base",
            data={"spec": json.dumps({"hyperparameters": {"epochs": 20}, **spec})},
            files={"model": ("new.onnx", pixel_model(name="image", seed=len(spec) + 1))},
        )
        assert answer.status_code == 202, answer.text
        job = served.wait_for_job(answer.json()["id"])
        assert job["state"] == "succeeded", job
        assert axes_of(served, job["version"]) == axes


def test_windows_say_their_length(served: Served) -> None:
    nodes = [
        helper.make_node("ReduceMean", ["x"], ["m"], "mean", axes=[1], keepdims=0),
        helper.make_node("Gemm", ["m", "w"], ["logits"], "head"),
    ]
    model = with_input(nodes, {"w": np.ones((3, 2))}, "x", "batch", "time", 3)
    answer = offer(served, model, preprocess={"kind": "windows", "length": 5})
    assert answer.status_code == 201, answer.text
    assert answer.json()["inputs"][0]["shape"] == [5, 3]
    nodes[0] = helper.make_node("Unsqueeze", ["x", "last"], ["u"], "wide")
    nodes[1] = helper.make_node("ReduceMean", ["u"], ["m"], "mean", axes=[1], keepdims=0)
    nodes.append(helper.make_node("Gemm", ["m", "w"], ["logits"], "head"))
    weights = {"w": np.ones((1, 2))}
    one = onnx.load_from_string(with_input(nodes, weights, "x", "batch", "samples"))
    one.graph.initializer.append(numpy_helper.from_array(np.array([2]), "last"))
    answer = offer(
        served,
        one.SerializeToString(),
        name="sound",
        preprocess={"kind": "windows", "length": 40},
    )
    assert answer.status_code == 201, answer.text
    assert answer.json()["inputs"][0]["shape"] == [40]
