"""What a federation asks of a daemon, through the bridge, without Flower."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator

import numpy as np
import pytest
from federated import FEDERATION, Tensors, make_device
from federated import Device as Daemon
from honed_client import Client, HonedError, Unreachable
from honed_flower.device import Device, NoUpdate, Stopped, reason
from honed_flower.updates import read_update, to_file
from support import Served, wait_until

SPEC = {"round": 1, "learning_rate": 0.01, "deadline_seconds": 120.0}


@pytest.fixture
def daemon(served: Served, request: pytest.FixtureRequest) -> Daemon:
    """A model of the test's own name that takes part in a federation."""
    name = re.sub(r"\W+", "-", request.node.name.removeprefix("test_"))
    made = make_device(served, name[-50:].strip("-_"))
    made.allow().raise_for_status()
    return made


@pytest.fixture
def client(served: Served, daemon: Daemon) -> Iterator[Client]:
    """With a token that may take part, and nothing else."""
    body = {"name": daemon.model, "scopes": ["federate"], "models": [daemon.model]}
    made = served.http.post("/v1/tokens", json=body).raise_for_status().json()
    with Client(served.url, token=made["secret"]) as client:
        yield client


@pytest.fixture
def device(client: Client, daemon: Daemon) -> Device:
    return Device(client, daemon.model, superlink=FEDERATION, stopped=threading.Event())


def shapes(parameters: Tensors) -> dict[str, tuple[int, ...]]:
    return {name: parameter.shape for name, parameter in parameters.items()}


def test_access_is_asked_for_without_a_round(device: Device, daemon: Daemon) -> None:
    device.require_access()
    assert daemon.http.get("/v1/jobs", params={"model": daemon.model}).json()["items"] == []
    url = daemon.served.url
    for token, model, code in (
        ("wrong", daemon.model, "unauthorized"),
        (None, "none", "not_found"),
    ):
        with Client(url, token=token or daemon.served.token) as client:
            stranger = Device(client, model, superlink=FEDERATION, stopped=threading.Event())
            with pytest.raises(HonedError) as refused:
                stranger.require_access()
            assert refused.value.code == code


def test_a_round_comes_to_an_update(device: Device, daemon: Daemon) -> None:
    sent = daemon.parameters()
    content, samples = device.train(to_file(sent), SPEC)
    update = read_update(content, shapes(sent))
    assert samples >= 16
    assert any(np.abs(each).max() > 0 for each in update.values())


def test_a_round_that_is_stopped_ends_the_training(client: Client, daemon: Daemon) -> None:
    begun: list[int] = []
    stopped = threading.Event()

    def note(round_id: int | None) -> None:
        if round_id is not None:
            begun.append(round_id)

    device = Device(client, daemon.model, superlink=FEDERATION, stopped=stopped, note=note)

    def stop() -> None:
        wait_until(lambda: begun, "a round")
        daemon.stepping(begun[0])
        stopped.set()

    watcher = threading.Thread(target=stop)
    watcher.start()
    with pytest.raises(Stopped):
        device.train(to_file(daemon.parameters()), {**SPEC, "max_steps": 10**8})
    watcher.join()
    assert daemon.ended(begun[0])["state"] == "cancelled"


def test_a_round_is_asked_once(device: Device, daemon: Daemon) -> None:
    parameters = to_file(daemon.parameters())
    device.train(parameters, SPEC)
    with pytest.raises(HonedError) as caught:
        device.train(parameters, SPEC)
    assert caught.value.code == "state_conflict"
    assert reason(caught.value) == "refused: state_conflict: the device's log says why"


def test_another_federation_is_refused(client: Client, daemon: Daemon) -> None:
    other = Device(client, daemon.model, superlink="other:9092", stopped=threading.Event())
    with pytest.raises(HonedError) as caught:
        other.train(to_file(daemon.parameters()), SPEC)
    assert caught.value.code == "not_consented"


def test_parameters_of_another_model_are_told_to_who_sent_them(
    device: Device, daemon: Daemon
) -> None:
    with pytest.raises(HonedError) as caught:
        device.train(to_file({"strange": np.zeros(3, np.float32)}), SPEC)
    assert "the model trains no parameter of this name" in reason(caught.value)
    assert daemon.federation()["rounds_today"] == 0


def test_a_round_past_its_deadline_has_no_update(
    device: Device, daemon: Daemon, served: Served
) -> None:
    parameters = to_file(daemon.parameters())
    served.http.post("/v1/pause").raise_for_status()
    try:
        with pytest.raises(NoUpdate, match="cancelled: deadline_passed"):
            device.train(parameters, {**SPEC, "deadline_seconds": 0.5, "on_deadline": "none"})
    finally:
        served.http.post("/v1/resume").raise_for_status()


def test_an_evaluation_and_a_model_for_the_gate(device: Device, daemon: Daemon) -> None:
    parameters = to_file(daemon.parameters())
    assert device.evaluate(parameters)["samples"] >= 16
    device.take(parameters)
    newest = daemon.http.get("/v1/jobs", params={"model": daemon.model}).json()["items"][0]
    assert daemon.served.wait_for_job(newest["id"])["trigger"] == "parameters"


def test_the_federation_is_told_no_more_than_the_kind_of_a_failure() -> None:
    spent = HonedError(409, {"code": "privacy_budget_spent", "detail": "epsilon 7.9 of 8"})
    assert "7.9" not in reason(spent)
    assert "/secret" not in reason(OSError("/secret/path"))
    assert reason(Unreachable("at 10.0.0.7")) == "no update: the device's daemon does not answer"
