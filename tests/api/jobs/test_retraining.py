"""What is learned anew once a sample is erased, and that no end of the daemon forgets the wish."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import httpx
import numpy as np
import pytest
from support import Served, mlp, wait_until

URL = "/v1/models/m"


def numbers(of: dict) -> set[int]:
    return {entry["version"] for entry in of["items"]}


def fifty_samples(served: Served) -> int:
    """Of a model m; the id of the first."""
    served.register("m", mlp(3, 4, 2))
    x = np.random.default_rng(0).random((50, 3))
    answer = served.upload("m", split="train", x=x, label=np.arange(50) % 2)
    first: int = answer.json()["ids"][0]
    return first


@pytest.mark.usefixtures("cleared")
def test_it_trains_as_the_longest_job_behind_latest_did(served: Served) -> None:
    served.register("m", mlp(3, 4, 2))
    x = np.random.default_rng(0).random((20, 3))
    first = served.upload("m", split="train", x=x, label=np.arange(20) % 2).json()["ids"][0]
    long = served.train("m", epochs=9, learning_rate=0.02, schedule="cosine", batch_size=4)
    served.http.put(f"{URL}/aliases/latest", json={"version": long["version"]})
    short = served.train("m", epochs=1, learning_rate=0.0001)
    served.http.put(f"{URL}/aliases/latest", json={"version": short["version"]})
    served.train("m", epochs=30, **{"from": "base"})
    served.http.put(f"{URL}/aliases/latest", json={"version": short["version"]})

    anew = served.http.delete(f"{URL}/samples/{first}", params={"retrain": True}).json()["job"]

    assert anew["trigger"] == "erasure"
    assert anew["hyperparameters"] == {**long["hyperparameters"], "from": "base"}


@pytest.mark.usefixtures("cleared")
def test_while_latest_has_not_been_trained_it_trains_as_the_job_that_it_stops(
    served: Served,
) -> None:
    first = fifty_samples(served)
    running = served.ask_for_job("m", max_seconds=600, learning_rate=0.02)
    wait_until(lambda: served.job(running["id"])["progress"]["step"] > 0, "the first step")

    anew = served.http.delete(f"{URL}/samples/{first}", params={"retrain": True}).json()["job"]

    assert served.job(running["id"])["state"] == "cancelled"
    assert anew["hyperparameters"] == {**running["hyperparameters"], "from": "base"}
    served.http.post(f"/v1/jobs/{anew['id']}/cancel")


def test_a_daemon_killed_while_it_stops_a_job_for_an_erasure_has_lost_no_wish(
    serve: Callable[..., Served],
) -> None:
    served = serve()
    first = fifty_samples(served)
    served.train("m", epochs=1)
    running = served.ask_for_job("m", max_seconds=600)["id"]
    wait_until(lambda: served.job(running)["progress"]["step"] > 0, "the first step")
    child = served.child_pid()
    assert child is not None
    os.kill(child, signal.SIGSTOP)
    with pytest.raises(httpx.ReadTimeout):
        served.http.delete(f"{URL}/samples/{first}", params={"retrain": True}, timeout=1)
    served.stop(signal.SIGKILL)
    os.kill(child, signal.SIGKILL)

    served = serve()
    there = served.http.get(f"{URL}/samples/{first}").status_code
    answer = served.http.delete(f"{URL}/samples/{first}", params={"retrain": True})

    assert (there, answer.status_code) == (200, 202)
    assert served.job(running)["state"] == "cancelled"
    anew = served.wait_for_job(answer.json()["job"]["id"])
    assert numbers(served.http.get(f"{URL}/versions").json()) == {1, anew["version"]}


def standardized(served: Served, rows: np.ndarray, *, learn_from: int) -> list[int]:
    """A model that learns mean and std of these rows, and one version of it; the rows' ids."""
    served.register("m", mlp(2, 2), preprocess={"kind": "standardize", "learn_from": learn_from})
    labels = np.arange(len(rows)) % 2
    ids = served.upload("m", split="train", x=rows, label=labels).json()["ids"]
    served.train("m", epochs=1)
    return [ids[0] + place for place in range(len(rows))]


def preprocess(served: Served) -> dict:
    return served.http.get(URL).json()["preprocess"][0]


@pytest.mark.usefixtures("cleared")
def test_mean_and_std_are_learned_anew_without_what_is_erased(
    served: Served,
) -> None:
    rows = np.array([[1234.5, 2.25], [1, 2], [3, 6], [5, 7]], np.float32)
    ids = standardized(served, rows, learn_from=3)
    before = preprocess(served)["mean"]

    anew = served.http.delete(f"{URL}/samples/{ids[0]}", params={"retrain": True}).json()["job"]

    assert before == pytest.approx([1238.5 / 3, 10.25 / 3])
    assert preprocess(served)["mean"] == pytest.approx([3, 5])
    assert preprocess(served)["std"] == pytest.approx(np.std(rows[1:], axis=0))
    version = served.wait_for_job(anew["id"])["version"]
    assert numbers(served.http.get(f"{URL}/versions").json()) == {1, version}
    assert preprocess(served)["mean"] == pytest.approx([3, 5])


@pytest.mark.usefixtures("cleared")
def test_mean_and_std_are_open_again_when_nothing_remains(served: Served) -> None:
    ids = standardized(served, np.array([[1234.5, 2.25]], np.float32), learn_from=2)

    answer = served.http.delete(f"{URL}/samples/{ids[0]}", params={"retrain": True})

    assert answer.json()["versions"] == [2]
    assert (preprocess(served)["mean"], preprocess(served)["std"]) == (None, None)
    served.upload("m", split="train", x=np.array([[1, 2], [3, 6]]), label=np.array([0, 1]))
    served.train("m", epochs=1)
    assert preprocess(served)["mean"] == pytest.approx([2, 4])


@pytest.mark.usefixtures("cleared")
def test_mean_and_std_stay_when_what_is_erased_came_after_them(
    served: Served,
) -> None:
    standardized(served, np.array([[1, 2], [3, 6]], np.float32), learn_from=10)
    before = preprocess(served)
    late = served.upload("m", split="train", x=np.array([[9, 9]]), label=np.array([1]))
    served.train("m", epochs=1)

    answer = served.http.delete(f"{URL}/samples/{late.json()['ids'][0]}", params={"retrain": True})

    version = served.wait_for_job(answer.json()["job"]["id"])["version"]
    assert numbers(served.http.get(f"{URL}/versions").json()) == {1, 2, version}
    assert preprocess(served) == before
