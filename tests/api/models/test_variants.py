"""Variants over HTTP: made once, when first asked for, measured, or refused."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from typing import Any

import httpx
import numpy as np
import onnx
import onnxruntime
import pytest
from support import DEADLINE_S, Served, blobs, mlp, wait_until

from service.models import variants


@pytest.fixture(scope="module")
def model(served: Served) -> str:
    served.register("variants", mlp(64, 128, 3))
    served.upload("variants", **blobs(600, 64, 3))
    served.train("variants", epochs=5, learning_rate=0.01)
    return "variants"


def infer(file: bytes, x: Any) -> Any:
    return onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"]).run(
        None, {"x": x}
    )[0]


def test_an_int8_variant_is_small_right_and_reported_beside_the_float_one(
    served: Served, model: str
) -> None:
    url = f"/v1/models/{model}/latest"
    float_file = served.http.get(f"{url}/model.onnx")
    small = served.http.get(f"{url}/model.onnx", params={"variant": "int8"})

    assert small.status_code == 200, small.text
    assert len(small.content) < len(float_file.content) / 2
    fresh = blobs(300, 64, 3, seed=5)
    answers = [infer(file, fresh["x"]).argmax(1) for file in (small.content, float_file.content)]
    assert (answers[0] == answers[1]).mean() > 0.95
    version = served.http.get(url).json()
    (report,) = [variant for variant in version["variants"] if variant["variant"] == "int8"]
    assert small.headers["ETag"] == f'"{report["sha256"]}"' != float_file.headers["ETag"]
    assert report["size_bytes"] == len(small.content)
    assert report["metrics"]["samples"] == version["metrics"]["samples"]
    assert report["reason"].startswith("kept: validation accuracy went from")
    assert "-int8.onnx" in small.headers["Content-Disposition"]


def test_a_variant_is_made_once_and_is_delivered_like_the_model(served: Served, model: str) -> None:
    url = f"/v1/models/{model}/versions/2/model.onnx"
    answers: list[Any] = []

    def ask() -> None:
        answers.append(served.http.get(url, params={"variant": "ort"}))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [answer.status_code for answer in answers] == [200] * 4
    assert len({answer.headers["ETag"] for answer in answers}) == 1
    tag = answers[0].headers["ETag"]
    again = served.http.get(url, params={"variant": "ort"}, headers={"If-None-Match": tag})
    part = served.http.get(url, params={"variant": "ort"}, headers={"Range": "bytes=0-9"})
    assert again.status_code == 304
    assert (part.status_code, part.content) == (206, answers[0].content[:10])
    x = blobs(20, 64, 3, seed=6)["x"]
    float_file = served.http.get(url).content
    np.testing.assert_allclose(infer(answers[0].content, x), infer(float_file, x), rtol=1e-4)
    assert served.log.read_text().count("not_made") == 0


def test_a_variant_that_nobody_knows_is_refused(served: Served, model: str) -> None:
    answer = served.http.get(f"/v1/models/{model}/latest/model.onnx", params={"variant": "int4"})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "/query/variant"
    missing = served.http.get(f"/v1/models/{model}/versions/99/model.onnx?variant=int8")
    assert missing.status_code == 404


def test_int8_is_refused_where_the_gate_cannot_tell(served: Served) -> None:
    served.register("unmeasured", mlp(8, 16, 3))
    url = "/v1/models/unmeasured/latest/model.onnx"
    answer = served.http.get(url, params={"variant": "int8"})
    assert (answer.status_code, answer.json()["code"]) == (409, "variant_refused")
    assert "0 validation samples, too few to tell" in answer.json()["detail"]
    assert served.http.get(url, params={"variant": "ort"}).status_code == 200
    served.upload("unmeasured", **blobs(40, 8, 3), split="validation")
    assert served.http.get(url, params={"variant": "int8"}).status_code == 200


def test_whoever_cannot_wait_any_longer_is_told_to_come_again(
    serve_inside: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(variants, "PATIENCE_S", 0.01)
    inside = serve_inside()
    with httpx.Client(
        base_url=inside.url, headers={"Authorization": f"Bearer {inside.token}"}, trust_env=False
    ) as http:
        spec = {"spec": json.dumps({"name": "m", "loss": "cross_entropy"})}
        files = {"model": ("model.onnx", mlp(8, 4, 3))}
        assert (
            http.post("/v1/models", data=spec, files=files, timeout=DEADLINE_S).status_code == 201
        )
        url = "/v1/models/m/latest/model.onnx?variant=ort"
        first = http.get(url)
        assert (first.status_code, first.json()["code"]) == (503, "variant_not_ready")
        assert int(first.headers["Retry-After"]) >= 1
        wait_until(lambda: http.get(url).status_code == 200, "the variant")


def lopsided() -> bytes:
    """A good classifier of `blobs` whose other weights drown in those of an input that is zero."""
    centres = np.random.default_rng(7).standard_normal((3, 8)) * 2
    centres[:, 0] = 0
    model = onnx.load_from_string(mlp(8, 3))
    weights = {"layer0.weight": centres.T.copy(), "layer0.bias": -(centres**2).sum(1) / 2}
    weights["layer0.weight"][0] = 1e5
    for tensor in model.graph.initializer:
        values = weights[tensor.name].astype(np.float32)
        tensor.CopyFrom(onnx.numpy_helper.from_array(values, tensor.name))
    return model.SerializeToString()


def test_a_variant_below_the_gate_is_refused_with_its_figures_until_the_gate_changes(
    served: Served,
) -> None:
    served.register("lopsided", lopsided())
    data = blobs(600, 8, 3)
    data["x"][:, 0] = 0
    served.upload("lopsided", **data)
    url = "/v1/models/lopsided/latest/model.onnx"

    refused = served.http.get(url, params={"variant": "int8"})

    assert (refused.status_code, refused.json()["code"]) == (409, "variant_refused")
    # Which samples validate follows from their ids, so the float model reads 9 in 10 or all right.
    figures = re.search(
        r"refused: validation accuracy went from ([0-9.]+)", refused.json()["detail"]
    )
    assert figures is not None
    assert float(figures[1]) >= 0.9
    (report,) = served.http.get("/v1/models/lopsided/latest").json()["variants"]
    assert report["sha256"] is None
    assert report["reason"] == refused.json()["detail"]
    assert report["verdict"]["validation"]["outcome"] == "worse"
    assert served.http.get(url, params={"variant": "int8"}).json() == refused.json()
    served.http.patch("/v1/models/lopsided", json={"gate": {"mode": "always"}})
    assert served.http.get(url, params={"variant": "int8"}).status_code == 200
