"""The predictor's own process: killed, stopped, starved, and replaced by a new version."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import numpy as np
import psutil
import pytest
from daemon_process import start_program
from predictions import X, ask, never_ending
from support import Served, blobs, client, mlp, wait_until

MUCH = np.zeros((8192, 8), dtype=np.float32)
"""A request that takes 0.4 s, in which whoever kills predictors finds each of them."""
POSIX = pytest.mark.skipif(sys.platform == "win32", reason="needs SIGSTOP")


def predictor_of(served: Served) -> psutil.Process | None:
    return next(iter(served.children("service.prediction")), None)


def test_a_new_version_takes_over_without_a_failed_request(
    served: Served, promote: Callable[[Served, str], int]
) -> None:
    served.register("moving", mlp(8, 16, 3))
    served.upload("moving", split="train", **blobs(64, 8, 3))
    served.upload("moving", split="validation", **blobs(64, 8, 3, seed=1))
    answers: list[tuple[int, int]] = []
    stop = threading.Event()

    def hammer() -> None:
        with client(served.url, token=served.token) as asking:
            while not stop.wait(0.005):
                body = {"inputs": {"x": X[0].tolist()}}
                answer = asking.post("/v1/models/moving/predict", json=body)
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
    return sum(1 for connection in connections if connection.status == psutil.CONN_ESTABLISHED)


@POSIX
def test_a_request_that_kills_every_predictor_is_told(serve: Callable[..., Served]) -> None:
    served = serve()
    served.register("poison", mlp(8, 1024, 1024, 3))
    ask(served, "poison", X[0])
    predictor = predictor_of(served)
    assert predictor is not None
    predictor.suspend()
    stop = threading.Event()

    def kill_them_all() -> None:
        while not stop.wait(0.01):
            predictor = predictor_of(served)
            if predictor is not None and predictor.is_running():
                os.kill(predictor.pid, signal.SIGKILL)

    killer = threading.Thread(target=kill_them_all)
    killer.start()
    try:
        answer = ask(served, "poison", *MUCH)
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


def test_models_that_sometimes_never_answer_take_one_process_of_three(
    serve: Callable[..., Served],
) -> None:
    served = serve(prediction_timeout_s=1)
    endless = [f"endless{number}" for number in range(3)]
    for number, name in enumerate(endless):
        served.register(name, never_ending(number))
    served.register("other", mlp(8, 3))
    quick, forever = np.ones(8, np.float32), np.full(8, 4000, np.float32)
    for name in endless:
        assert ask(served, name, quick).status_code == 200
        assert ask(served, name, forever).json()["code"] == "prediction_timeout"
        assert ask(served, name, quick).status_code == 200, (
            "it can be quick, and so is not to be told"
        )
    answers: list[httpx.Response] = []
    asking = [
        threading.Thread(target=lambda name=name: answers.append(ask(served, name, forever)))
        for name in endless
    ]
    for thread in asking:
        thread.start()
    wait_until(lambda: busy_connections(served) >= len(endless), "the endless ones to be asked")
    for _ in range(5):
        assert ask(served, "other", X[0]).status_code == 200
    assert not answers
    for thread in asking:
        thread.join()
    assert {answer.json()["code"] for answer in answers} == {"prediction_timeout"}


def test_the_predictor_starts_at_first_use_and_ends_when_idle(
    serve: Callable[..., Served],
) -> None:
    served = serve(prediction_idle_timeout_s=0.3)
    served.register("idle", mlp(8, 3))
    assert predictor_of(served) is None

    assert ask(served, "idle", X[0]).status_code == 200
    wait_until(lambda: "predictor.dropped" in served.said(), "the predictor to be dropped")
    wait_until(lambda: predictor_of(served) is None, "its end")

    assert ask(served, "idle", X[0]).status_code == 200


def test_the_predictor_ends_with_a_daemon_that_was_killed(serve: Callable[..., Served]) -> None:
    served = serve()
    served.register("orphan", mlp(8, 3))
    ask(served, "orphan", X[0])
    predictor = predictor_of(served)
    assert predictor is not None

    served.stop(signal.SIGKILL)

    wait_until(lambda: not predictor.is_running(), "the predictor to end")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory, database: Path) -> Iterator[Served]:
    """A daemon that was started, not forked: it has loaded what it needs, and no more."""
    folder = tmp_path_factory.mktemp("program")
    running = Served(folder / "data", database=database, start=start_program)
    yield running
    running.stop()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_daemon_itself_never_loads_onnx_runtime(program: Served) -> None:
    program.register("elsewhere", mlp(8, 3))
    assert ask(program, "elsewhere", X[0]).status_code == 200

    maps = Path(f"/proc/{program.process.pid}/maps").read_text()
    assert "onnxruntime" not in maps


@pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_DATA")
def test_by_default_half_of_the_memory_is_the_limit_of_a_predictor(served: Served) -> None:
    served.register("limited", mlp(8, 3))
    assert ask(served, "limited", X[0]).status_code == 200
    cap_bytes = served.http.get("/v1/policy").json()["memory_limit_bytes"]
    predictor = predictor_of(served)
    assert predictor is not None

    limit_bytes, _ = predictor.rlimit(psutil.RLIMIT_DATA)

    assert 0 < cap_bytes <= psutil.virtual_memory().total // 2
    assert 0 < limit_bytes <= cap_bytes


@pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_DATA")
def test_null_takes_the_limit_off_a_predictor_that_runs(serve: Callable[..., Served]) -> None:
    served = serve()
    served.register("unlimited", mlp(8, 3))
    assert ask(served, "unlimited", X[0]).status_code == 200
    predictor = predictor_of(served)
    assert predictor is not None
    assert predictor.rlimit(psutil.RLIMIT_DATA)[0] != psutil.RLIM_INFINITY

    answer = served.http.put("/v1/policy", json={"memory_limit_bytes": None})

    assert answer.json()["memory_limit_bytes"] is None
    assert predictor.rlimit(psutil.RLIMIT_DATA)[0] == psutil.RLIM_INFINITY


@pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_DATA")
def test_a_prediction_that_takes_more_memory_than_the_limit_fails_alone(program: Served) -> None:
    program.register("wide", mlp(8, 200_000, 3))
    limit = {"memory_limit_bytes": 400 << 20}
    assert program.http.put("/v1/policy", json=limit).status_code == 200
    assert ask(program, "wide", X[0]).status_code == 200

    rows = [{"inputs": {"x": X[0].tolist()}}] * 1000
    answer = program.http.post("/v1/models/wide/predict", json={"instances": rows})

    assert answer.status_code in (422, 500), answer.text
    assert answer.json()["code"] in ("prediction_failed", "child_died")
    assert ask(program, "wide", X[0]).status_code == 200
