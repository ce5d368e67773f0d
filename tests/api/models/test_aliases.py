"""Aliases over HTTP: moved by people, by many at once, and across kills."""

from __future__ import annotations

import itertools
import random
import signal
import sys
import threading
from collections.abc import Callable

import httpx
import numpy as np
import onnxruntime
import pytest
from support import Served, blobs, client, mlp, wait_until

KILLS = 3
CLIENTS = 8
MOVES = 20
"""How many each daemon answers before it is killed."""
VERSIONS = 4
TIMEOUT_S = 10.0


@pytest.fixture(scope="module")
def model(served: Served) -> str:
    served.register("aliases", mlp(8, 16, 3), gate={"mode": "always"})
    served.upload("aliases", **blobs(60, 8, 3))
    for seed in range(2):
        served.train("aliases", epochs=1, seed=seed)
    return "aliases"


def latest(served: Served, model: str) -> int:
    return served.http.get(f"/v1/models/{model}/latest").json()["version"]


def test_aliases_are_made_moved_listed_and_deleted(served: Served, model: str) -> None:
    url = f"/v1/models/{model}/aliases"
    for number in (1, 3):
        answer = served.http.put(f"{url}/stable", json={"version": number})
        assert (answer.status_code, answer.json()) == (200, {"alias": "stable", "version": number})
    listed = served.http.get(url).json()
    assert listed["items"] == [
        {"alias": "latest", "version": 3},
        {"alias": "stable", "version": 3},
    ]
    first = served.http.get(url, params={"limit": 1}).json()
    rest = served.http.get(url, params={"cursor": first["next"]}).json()
    assert first["items"] + rest["items"] == listed["items"]
    assert served.http.delete(f"{url}/stable").status_code == 204
    assert served.http.get(f"{url}/stable").status_code == 404
    assert served.http.delete(f"{url}/stable").status_code == 404


def test_latest_is_never_deleted_and_never_names_what_is_not_there(
    served: Served, model: str
) -> None:
    url = f"/v1/models/{model}/aliases/latest"
    refused = served.http.delete(url)
    assert (refused.status_code, refused.json()["code"]) == (409, "in_use")
    assert served.http.put(url, json={"version": 99}).status_code == 404
    assert served.http.put(url, json={"version": 0}).status_code == 422
    assert served.http.put(url, json={"version": 1, "force": True}).status_code == 422
    assert latest(served, model) == 3


def test_a_rollback_holds_against_the_next_job_until_it_is_released(
    served: Served,
) -> None:
    served.register("held", mlp(8, 16, 3))
    served.upload("held", **blobs(600, 8, 3))
    bad = served.train("held", epochs=5, learning_rate=0.02)["version"]
    assert latest(served, "held") == bad

    back = served.http.post("/v1/models/held/rollback")
    assert (back.status_code, back.json()["version"], back.json()["aliases"]) == (
        200,
        1,
        ["latest"],
    )
    held = served.train("held", epochs=5, learning_rate=0.02)["version"]

    kept_back = served.http.get(f"/v1/models/held/versions/{held}").json()
    assert latest(served, "held") == 1
    assert kept_back["promoted"] is False
    assert kept_back["reason"].startswith("not promoted: a person holds latest at version 1 since")
    assert kept_back["verdict"]["validation"]["outcome"] == "better"
    assert served.http.get("/v1/models/held").json()["held_since"] is not None
    assert served.http.post("/v1/models/held/rollback").status_code == 409

    released = served.http.post("/v1/models/held/release")
    assert (released.status_code, released.json()["held_since"]) == (200, None)
    assert latest(served, "held") == 1
    free = served.train("held", epochs=5, learning_rate=0.02)["version"]
    assert latest(served, "held") == free


def test_rollbacks_and_aliases_need_the_token_and_a_model(served: Served) -> None:
    for method, path in (
        ("POST", "rollback"),
        ("POST", "release"),
        ("GET", "aliases"),
        ("PUT", "aliases/latest"),
        ("PUT", "reference"),
    ):
        url = f"/v1/models/nobody/{path}"
        body = {"version": 1} if path.endswith("latest") else None
        assert served.http.request(method, url, json=body).status_code == 404, url
        bare = served.tokenless.request(method, url, json=body)
        assert bare.status_code == 401


class Storm:
    """Clients that move `latest` as fast as they can, whether the daemon is there or not."""

    def __init__(self, url: str, token: str, *, seed: int) -> None:
        self.answers: list[int] = []
        self._url = url
        self._token = token
        self._stopped = threading.Event()
        self._threads = [
            threading.Thread(target=self._blow, args=(random.Random(seed * 100 + number),))
            for number in range(CLIENTS)
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join(TIMEOUT_S * 2)
            assert not thread.is_alive()

    def _blow(self, choice: random.Random) -> None:
        with client(self._url, token=self._token) as http:
            while not self._stopped.is_set():
                try:
                    answer = self._move(http, choice)
                except httpx.TransportError:
                    return  # it was killed: the next daemon has clients of its own
                self.answers.append(answer.status_code)

    def _move(self, http: httpx.Client, choice: random.Random) -> httpx.Response:
        kind = choice.choices(("put", "roll back", "release", "stable"), (6, 3, 1, 1))[0]
        target = {"version": choice.randint(1, VERSIONS)}
        if kind == "put":
            return http.put("/v1/models/m/aliases/latest", json=target)
        if kind == "stable":
            return http.put("/v1/models/m/aliases/stable", json=target)
        return http.post(f"/v1/models/m/{'rollback' if kind == 'roll back' else 'release'}")


def check(served: Served) -> None:
    """There is exactly one `latest`; it exists, and it loads."""
    everything = served.http.get("/v1/models/m/versions").json()["items"]
    named = [item for item in everything if "latest" in item["aliases"]]
    assert len(named) == 1, [item["aliases"] for item in everything]
    listed = served.http.get("/v1/models/m/aliases").json()["items"]
    assert [a["version"] for a in listed if a["alias"] == "latest"] == [named[0]["version"]]
    assert served.http.get("/v1/models/m").json()["latest_version"] == named[0]["version"]
    file = served.http.get("/v1/models/m/latest/model.onnx")
    assert file.headers["ETag"] == f'"{named[0]["sha256"]}"'
    session = onnxruntime.InferenceSession(file.content, providers=["CPUExecutionProvider"])
    (logits,) = session.run(None, {"x": np.zeros((1, 8), np.float32)})
    assert np.isfinite(logits).all()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
def test_many_clients_and_kills_always_leave_exactly_one_latest_that_loads(
    serve: Callable[..., Served],
) -> None:
    served = serve()
    served.register("m", mlp(8, 16, 3), gate={"mode": "always"})
    served.upload("m", **blobs(60, 8, 3))
    for seed in range(VERSIONS - 1):
        served.train("m", epochs=1, seed=seed)
    moved = 0
    for round_number in itertools.count(1):
        storm = Storm(served.url, served.token, seed=round_number)
        wait_until(lambda s=storm: len(s.answers) > MOVES, "the clients to move latest")
        if round_number > KILLS:
            storm.stop()
            break
        served.stop(signal.SIGKILL)
        storm.stop()
        moved += storm.answers.count(200)
        assert set(storm.answers) <= {200, 409}
        served = serve()
        check(served)
    check(served)
    assert moved > MOVES
    while served.http.post("/v1/models/m/rollback").status_code == 200:
        check(served)
