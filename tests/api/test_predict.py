"""Prediction through a real daemon, with a real predictor that is killed, stopped and starved."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import onnxruntime
import psutil
import pytest
from support import Served, blobs, mlp, npz, wait_until

POSIX = pytest.mark.skipif(sys.platform == "win32", reason="needs SIGSTOP")
NPZ = {"Content-Type": "application/x-npz"}
X = np.random.default_rng(3).standard_normal((5, 8)).astype(np.float32)


def ask(served: Served, name: str, *rows: np.ndarray, **query: Any) -> httpx.Response:
    body: dict[str, Any] = {"instances": [{"inputs": {"x": row.tolist()}} for row in rows]}
    return served.http.post(f"/v1/models/{name}/predict", json=body, params=query)


def expected(model: bytes, x: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0]


def predictor_of(served: Served) -> psutil.Process | None:
    for child in psutil.Process(served.process.pid).children():
        if "service.prediction" in child.cmdline():
            return child
    return None


@pytest.fixture(scope="module")
def fruit(served: Served) -> bytes:
    model = mlp(8, 16, 3)
    served.register("fruit", model, classes=["apple", "pear", "plum"])
    return model


def test_a_classifier_names_the_class_and_its_probability(served: Served, fruit: bytes) -> None:
    answer = ask(served, "fruit", *X)

    logits = expected(fruit, X)
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    probabilities = powers / powers.sum(axis=1, keepdims=True)
    body = answer.json()
    assert (body["model"], body["version"]) == ("fruit", 1)
    assert body["classes"] == ["apple", "pear", "plum"]
    for row, prediction in enumerate(body["predictions"]):
        assert prediction["outputs"]["logits"] == pytest.approx(logits[row], abs=1e-5)
        assert prediction["probabilities"] == pytest.approx(probabilities[row], abs=1e-5)
        assert prediction["label"] == body["classes"][probabilities[row].argmax()]
        assert prediction["probability"] == pytest.approx(probabilities[row].max(), abs=1e-5)


def test_one_instance_and_npz_get_the_same_answers(served: Served, fruit: bytes) -> None:
    batch = ask(served, "fruit", *X).json()["predictions"]
    url = "/v1/models/fruit/predict"
    one = served.http.post(url, json={"inputs": {"x": X[0].tolist()}}).json()
    zipped = served.http.post(url, content=npz(x=X), headers=NPZ).json()

    logits = [each["outputs"]["logits"] for each in batch]
    assert one["predictions"][0]["outputs"]["logits"] == pytest.approx(logits[0], abs=1e-6)
    assert one["predictions"][0]["label"] == batch[0]["label"]
    assert zipped["predictions"] == batch


def test_binary_cross_entropy_gives_probabilities(served: Served) -> None:
    model = mlp(8, 4)
    served.register("tags", model, loss="bce_with_logits")

    (prediction,) = ask(served, "tags", X[0]).json()["predictions"]

    assert prediction["probabilities"] == pytest.approx(
        1 / (1 + np.exp(-expected(model, X[:1])[0]))
    )
    assert "label" not in prediction


def test_regression_gives_values(served: Served) -> None:
    model = mlp(8, 2)
    served.register("heights", model, loss="mse")

    (prediction,) = ask(served, "heights", X[0]).json()["predictions"]

    assert prediction["values"] == pytest.approx(expected(model, X[:1])[0], abs=1e-5)


def test_every_bad_instance_is_told(served: Served, fruit: bytes) -> None:
    good = X[0].tolist()
    instances = [
        {"inputs": {"x": good}},
        {"inputs": {"x": [1, 2]}},
        {"inputs": {"x": good}, "label": 1},
        {"inputs": {"x": [*good[:7], "nan"]}},
        {"inputs": {"y": good}},
        7,
    ]
    answer = served.http.post("/v1/models/fruit/predict", json={"instances": instances})

    assert answer.status_code == 422
    assert [problem["pointer"] for problem in answer.json()["errors"]] == [
        "/instances/1/inputs/x",
        "/instances/2/label",
        "/instances/3/inputs/x",
        "/instances/4/inputs/y",
        "/instances/4/inputs",
        "/instances/5",
    ]


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        (b"{", ""),
        (b'{"instances": []}', "/instances"),
        (b'{"instances": 3}', "/instances"),
        (b'{"instances": [], "more": 1}', "/more"),
        (b'{"inputs": {"x": [1]}}', "/inputs/x"),
        (b"[]", ""),
    ],
)
def test_a_body_of_another_form_is_refused(
    served: Served, fruit: bytes, body: bytes, pointer: str
) -> None:
    answer = served.http.post(
        "/v1/models/fruit/predict", content=body, headers={"Content-Type": "application/json"}
    )

    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == pointer


def test_a_bad_npz_tells_its_row(served: Served, fruit: bytes) -> None:
    x = X.copy()
    x[3, 2] = np.nan
    url = "/v1/models/fruit/predict"

    row = served.http.post(url, content=npz(x=x), headers=NPZ)
    torn = served.http.post(url, content=npz(x=x)[:-30], headers=NPZ)

    assert row.json()["errors"][0]["pointer"] == "/x/3"
    assert (row.status_code, torn.status_code) == (422, 422)


def test_an_unknown_model_or_body_is_refused(served: Served, fruit: bytes) -> None:
    image = served.http.post(
        "/v1/models/fruit/predict", content=b"x", headers={"Content-Type": "image/png"}
    )

    assert ask(served, "nobody", X[0]).status_code == 404
    assert image.status_code == 415


def test_a_body_past_the_limit_is_refused(serve: Callable[..., Served]) -> None:
    served = serve(prediction_body_bytes=5000)
    served.register("small", mlp(8, 3))

    large = served.http.post("/v1/models/small/predict", content=b" " * 5001, headers=NPZ)
    bomb = served.http.post(
        "/v1/models/small/predict", content=compressed(x=np.zeros((1000, 8), "f4")), headers=NPZ
    )

    assert (large.status_code, bomb.status_code) == (413, 413)


def compressed(**arrays: np.ndarray) -> bytes:
    import io

    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def test_a_prediction_is_kept_and_corrected_and_trained_on(served: Served) -> None:
    served.register("corrected", mlp(8, 3), classes=["a", "b", "c"])

    answer = ask(served, "corrected", *X, keep=True).json()
    stored = served.http.get(f"/v1/models/corrected/samples/{answer['ids'][1]}/content").content
    waiting = served.http.get("/v1/models/corrected/samples/stats").json()
    for sample_id in answer["ids"]:
        url = f"/v1/models/corrected/samples/{sample_id}"
        patch = {"label": "b", "split": "train"}
        assert served.http.patch(url, json=patch).status_code == 200
    labelled = served.http.get("/v1/models/corrected/samples/stats").json()

    assert len(answer["ids"]) == len(X)
    assert (waiting["unlabelled"], labelled["unlabelled"]) == (len(X), 0)
    assert labelled["train"] == len(X)
    assert len(stored) > 0
    assert served.train("corrected", epochs=1, ignore_policy=True)["version"] == 2


def test_without_keep_nothing_is_stored(served: Served, fruit: bytes) -> None:
    assert "ids" not in ask(served, "fruit", X[0]).json()
    assert served.http.get("/v1/models/fruit/samples/stats").json()["unlabelled"] == 0


def test_a_new_version_takes_over_without_a_failed_request(
    served: Served, promote: Callable[[Served, str], int]
) -> None:
    served.register("moving", mlp(8, 16, 3))
    served.upload("moving", split="train", **blobs(64, 8, 3))
    served.upload("moving", split="validation", **blobs(64, 8, 3, seed=1))
    answers: list[tuple[int, int]] = []
    stop = threading.Event()

    def hammer() -> None:
        with httpx.Client(base_url=served.url, headers=served.http.headers, timeout=60) as client:
            while not stop.is_set():
                body = {"inputs": {"x": X[0].tolist()}}
                answer = client.post("/v1/models/moving/predict", json=body)
                answers.append((answer.status_code, answer.json().get("version")))

    threads = [threading.Thread(target=hammer) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        number = promote(served, "moving")
        wait_until(lambda: answers[-1][1] == number, "the new version to answer")
    finally:
        stop.set()
        for thread in threads:
            thread.join()

    assert {status for status, _ in answers} == {200}
    assert {version for _, version in answers} == {1, number}


@POSIX
def test_a_predictor_killed_in_mid_request_fails_no_request(serve: Callable[..., Served]) -> None:
    served = serve()
    served.register("killed", mlp(8, 3))
    ask(served, "killed", X[0])
    predictor = predictor_of(served)
    assert predictor is not None
    answers: list[int] = []
    predictor.suspend()
    threads = [
        threading.Thread(target=lambda: answers.append(ask(served, "killed", X[0]).status_code))
        for _ in range(5)
    ]
    for thread in threads:
        thread.start()
    wait_until(lambda: busy_connections(served) >= 5, "five requests to be under way")

    os.kill(predictor.pid, signal.SIGKILL)
    for thread in threads:
        thread.join()

    assert answers == [200] * 5
    assert served.http.get("/healthz").status_code == 200


def busy_connections(served: Served) -> int:
    connections = psutil.Process(served.process.pid).net_connections(kind="tcp")
    return sum(1 for each in connections if each.status == psutil.CONN_ESTABLISHED)


@POSIX
def test_a_request_that_kills_every_predictor_is_told(serve: Callable[..., Served]) -> None:
    served = serve()
    served.register("poison", mlp(8, 3))
    ask(served, "poison", X[0])
    predictor = predictor_of(served)
    assert predictor is not None
    predictor.suspend()
    stop = threading.Event()

    def kill_them_all() -> None:
        while not stop.is_set():
            predictor = predictor_of(served)
            if predictor is not None and predictor.is_running():
                os.kill(predictor.pid, signal.SIGKILL)
            time.sleep(0.01)

    killer = threading.Thread(target=kill_them_all)
    killer.start()
    try:
        answer = ask(served, "poison", X[0])
    finally:
        stop.set()
        killer.join()

    assert answer.status_code == 500
    assert answer.json()["code"] == "child_died"
    assert "SIGKILL" in answer.json()["detail"]
    assert ask(served, "poison", X[0]).status_code == 200


@POSIX
def test_a_predictor_that_hangs_is_replaced(serve: Callable[..., Served]) -> None:
    served = serve(prediction_timeout_s=3)
    served.register("hangs", mlp(8, 3))
    ask(served, "hangs", X[0])
    predictor = predictor_of(served)
    assert predictor is not None
    predictor.suspend()

    answer = ask(served, "hangs", X[0])

    assert answer.status_code == 504
    assert answer.json()["code"] == "prediction_timeout"
    assert ask(served, "hangs", X[0]).status_code == 200


def test_the_predictor_starts_at_first_use_and_ends_when_idle(
    serve: Callable[..., Served],
) -> None:
    served = serve(prediction_idle_timeout_s=0.3)
    served.register("idle", mlp(8, 3))
    assert predictor_of(served) is None

    assert ask(served, "idle", X[0]).status_code == 200
    wait_until(lambda: predictor_of(served) is None, "the predictor to be dropped")

    assert ask(served, "idle", X[0]).status_code == 200


def test_the_predictor_ends_with_a_daemon_that_was_killed(serve: Callable[..., Served]) -> None:
    served = serve()
    served.register("orphan", mlp(8, 3))
    ask(served, "orphan", X[0])
    predictor = predictor_of(served)
    assert predictor is not None

    served.stop(signal.SIGKILL)

    wait_until(lambda: not predictor.is_running(), "the predictor to end")


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_daemon_itself_never_loads_onnx_runtime(served: Served, fruit: bytes) -> None:
    assert ask(served, "fruit", X[0]).status_code == 200

    maps = Path(f"/proc/{served.process.pid}/maps").read_text()
    assert "onnxruntime" not in maps
