"""A quantized model that trains adapters: registered, trained, fetched, asked, refused."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx.helper import make_node
from onnx.numpy_helper import from_array
from quantized import CLASSES, FEATURES, STORED, network
from step_models import model_of
from support import Served

from service.training.engines.runtime import open_session

LORA = {"lora": {"rank": 2, "alpha": 4, "targets": ["*.w"]}}


def upload(name: str = "int8") -> bytes:
    return network(STORED[name])[0].SerializeToString()


@pytest.fixture(scope="module")
def model(served: Served) -> str:
    served.register("lora", upload(), trainable=LORA, gate={"mode": "always"})
    rng = np.random.default_rng(0)
    x = rng.standard_normal((80, FEATURES)).astype(np.float32)
    label = rng.integers(0, CLASSES, 80)
    for split, rows in (("train", slice(0, 60)), ("validation", slice(60, None))):
        served.upload("lora", split=split, x=x[rows], label=label[rows]).raise_for_status()
    return "lora"


def test_adapters_alone_train_and_the_base_stays_as_it_is(served: Served, model: str) -> None:
    shown = served.http.get(f"/v1/models/{model}").json()
    assert shown["parameters"]["names"] == [
        f"{name}.lora_{letter}" for name in ("attn.w", "mlp.w", "head.w") for letter in "AB"
    ]
    assert "adapters of rank 2 train beside 3 frozen weights" in shown["notes"]
    job = served.train(model, epochs=8, learning_rate=0.02, batch_size=8)
    assert job["metrics"]["train_loss"] < 0.9 * np.log(CLASSES)
    content = served.http.get(f"/v1/models/{model}/versions/{job['version']}/model.onnx").content
    x = np.ones((1, FEATURES), np.float32)
    (logits,) = open_session(content, threads=1).run(None, {"x": x})
    asked = {"instances": [{"inputs": {"x": x[0].tolist()}}]}
    url = f"/v1/models/{model}/predict?output=logits"
    (said,) = served.http.post(url, json=asked).json()["predictions"]
    assert said["outputs"]["logits"] == pytest.approx(logits[0].tolist(), abs=1e-4)


@pytest.mark.parametrize(
    ("trainable", "pointer", "said"),
    [
        ({"lora": {"targets": ["nothing.*"]}}, "/spec/trainable/lora/targets/0", "attn.w"),
        ({"lora": {"rank": 4}}, "/spec/trainable/lora/rank", "at most 3"),
        ({"lora": {"rank": 0}}, "/spec/trainable/lora/rank", "greater than or equal to 1"),
        ({"lora": {"ranks": 4}}, "/spec/trainable/lora/ranks", "rank"),
        ([LORA, LORA], "/spec/trainable", "adapters stand twice"),
    ],
)
def test_what_does_not_fit_is_refused_and_nothing_is_stored(
    trainable: Any, pointer: str, said: str, served: Served
) -> None:
    spec = {"name": "unfit", "loss": "cross_entropy", "trainable": trainable}
    answer = served.http.post(
        "/v1/models", data={"spec": json.dumps(spec)}, files={"model": ("m.onnx", upload())}
    )
    assert answer.status_code == 422, answer.text
    found = {error["pointer"]: error["detail"] for error in answer.json()["errors"]}
    assert list(found) == [pointer]
    assert said in found[pointer]
    assert served.http.get("/v1/models/unfit").status_code == 404


def test_a_graph_of_which_nothing_can_get_an_adapter_says_so(served: Served) -> None:
    kernels = from_array(np.ones((3, 1, 3, 3), np.float32), "kernels")
    nodes = [
        make_node("Conv", ["x", "kernels"], ["maps"], "conv"),
        make_node("GlobalAveragePool", ["maps"], ["pooled"], "pool"),
        make_node("Flatten", ["pooled"], ["logits"], "flatten"),
    ]
    shapes = {"x": ["batch", 1, 8, 8]}, {"logits": ["batch", 3]}
    content = model_of(nodes, *shapes, [kernels]).SerializeToString()
    spec = {"name": "unfit", "loss": "cross_entropy", "trainable": {"lora": {"targets": ["*"]}}}
    answer = served.http.post(
        "/v1/models", data={"spec": json.dumps(spec)}, files={"model": ("m.onnx", content)}
    )
    assert answer.status_code == 422
    assert answer.json()["detail"].endswith(
        "the graph has none that could get an adapter; name weights to train whole"
    )


@pytest.mark.parametrize("base", ["int8", "int4"])
def test_a_quantized_file_is_refused_with_the_hint_that_adapters_train(
    base: str, served: Served
) -> None:
    spec = {"name": "unfit", "loss": "cross_entropy"}
    answer = served.http.post(
        "/v1/models", data={"spec": json.dumps(spec)}, files={"model": ("m.onnx", upload(base))}
    )
    assert answer.status_code == 422
    assert all("train adapters (lora)" in error["detail"] for error in answer.json()["errors"])


@pytest.mark.parametrize("base", ["int8", "float32"])
def test_a_version_takes_what_its_adapters_take_and_is_put_together_when_fetched(
    base: str, serve: Callable[..., Served]
) -> None:
    served = serve()
    content = upload(base)
    served.register("m", content, trainable=LORA, gate={"mode": "always"})
    rng = np.random.default_rng(0)
    x = rng.standard_normal((40, FEATURES)).astype(np.float32)
    label = rng.integers(0, CLASSES, 40)
    served.upload("m", split="train", x=x, label=label).raise_for_status()
    versions = [served.train("m", epochs=2, batch_size=8, seed=seed)["version"] for seed in (1, 2)]
    shown = [served.http.get(f"/v1/models/m/versions/{n}").json() for n in versions]
    stored = {path.name: path.stat().st_size for path in (served.data_dir / "files").glob("*/*")}
    for version in shown:
        assert version["sha256"] not in stored
        assert version["stored_bytes"] in stored.values()
        assert version["stored_bytes"] < 6_000 < version["size_bytes"]
    served.stop()
    again = serve(served.data_dir)
    for version in shown:
        fetched = again.http.get(f"/v1/models/m/versions/{version['version']}/model.onnx")
        assert hashlib.sha256(fetched.content).hexdigest() == version["sha256"]
        assert fetched.headers["etag"] == f'"{version["sha256"]}"'
    again.http.delete("/v1/models/m").raise_for_status()
    left = [path.name for path in (served.data_dir / "files").glob("*/*")]
    assert not left
