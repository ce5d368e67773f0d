"""Federations with Flower's real SuperLink and SuperNodes, by TLS and keys, of real daemons."""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from support import wait_until

EXAMPLE = Path(__file__).parents[3] / "examples" / "federated"
sys.path.append(str(EXAMPLE))
from cameras import digits, network, seen_by  # noqa: E402
from device import MODEL, Device  # noqa: E402
from processes import Program  # noqa: E402
from superlink import SuperLink, certificates  # noqa: E402

DEVICES = 3
LONG = 10**8
"""Steps of a round that does not end by itself."""
MALICIOUS = """
from pathlib import Path
Path({mark!r}).write_text("ran")
from flwr.clientapp import ClientApp
app = ClientApp()
"""
WRONG_CLOCK = """
import datetime, time
real = time.time
time.time = lambda: real() + {offset_s}
import flwr.supercore.date
flwr.supercore.date.now = lambda: (
    datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds={offset_s})
)
"""
"""As sitecustomize.py: the clock of a Python program, as Flower and honed-flower read it."""


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="hone-flower-") as name:
        yield Path(name)


@pytest.fixture(scope="module")
def superlink(folder: Path, flower: Path) -> Iterator[SuperLink]:
    (folder / "m.onnx").write_bytes(network())
    started = SuperLink(folder, flower)
    yield started
    started.program.stop()


@pytest.fixture(scope="module")
def devices(superlink: SuperLink, folder: Path) -> Iterator[list[Device]]:
    made: list[Device] = []
    learned, _ = digits()
    try:
        for number in range(DEVICES):
            device = Device(folder / f"device-{number}")
            made.append(device)
            seen = seen_by(number, learned, 120)
            device.register(MODEL, network())
            device.upload(MODEL, seen.images, seen.labels)
            device.allow(superlink.address)
            superlink.register(device.key(superlink))
            with pytest.MonkeyPatch.context() as network_of_the_device:
                network_of_the_device.setenv("HTTP_PROXY", "http://127.0.0.1:9")
                device.join(superlink, patience=5)
        yield made
    finally:
        for device in made:
            device.stop()


def begin(superlink: SuperLink, name: str, **settings: object) -> str:
    return superlink.submit(
        **{
            "model": str(superlink.folder / "m.onnx"),
            "output": str(superlink.folder / name),
            "rounds": 1,
            "nodes": DEVICES,
            "deliver": "never",
            "learning_rate": 0.003,
            "seed": 1,
            **settings,
        }
    )


def end(superlink: SuperLink, run: str) -> None:
    """Stop it, unless it ended by itself."""
    try:
        superlink.flwr("stop", run, "here")
    except RuntimeError as error:
        if "already finished" not in str(error):
            raise


def weights(file: Path) -> dict[str, np.ndarray]:
    model = onnx.load(file)
    return {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}


def state(device: Device) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((device.folder / "node" / "state.json").read_text())
    return read


def stopped(device: Device) -> bool:
    return device.left_over() == 0 and device.jobs(model=MODEL)[0]["state"] == "cancelled"


def begin_long(superlink: SuperLink, devices: list[Device], name: str) -> str:
    """A run whose round trains on every device until somebody stops it."""
    run = begin(superlink, name, max_steps=LONG, epochs=0)
    for device in devices:
        wait_until(device.is_stepping, "a round in its middle")
    return run


def test_the_sum_that_the_server_sees_is_the_mean_of_the_updates(
    superlink: SuperLink, devices: list[Device]
) -> None:
    assert superlink.finish(begin(superlink, "plain")) == "finished:completed"
    run = begin(superlink, "secure", secure_aggregation=True)
    assert superlink.finish(run) == "finished:completed"
    start, plain, secure = (
        weights(superlink.folder / each)
        for each in ("m.onnx", "plain/global.onnx", "secure/global.onnx")
    )
    for name, values in plain.items():
        assert np.abs(values - start[name]).max() > 1e-3
        np.testing.assert_allclose(secure[name], values, atol=1e-4)


def test_what_secure_aggregation_cannot_do_ends_the_run_before_its_first_round(
    superlink: SuperLink, devices: list[Device]
) -> None:
    before = devices[0].rounds_sent()
    run = begin(superlink, "refused", secure_aggregation=True, strategy="krum")
    assert superlink.finish(run).startswith("finished:failed")
    assert "krum needs each update" in superlink.flwr("log", run, "here", "--show")
    assert devices[0].rounds_sent() == before


def test_a_run_that_is_stopped_ends_the_training_on_every_device(
    superlink: SuperLink, devices: list[Device]
) -> None:
    before = [device.rounds_sent() for device in devices]
    run = begin_long(superlink, devices, "stopped")
    superlink.flwr("stop", run, "here")
    for device in devices:
        wait_until(lambda d=device: stopped(d), "the round to be stopped", deadline_s=60)
    assert [device.rounds_sent() for device in devices] == before


def test_no_code_of_the_server_runs_on_a_device(
    superlink: SuperLink, devices: list[Device], folder: Path
) -> None:
    mark = folder / "mark"
    app = folder / "malicious"
    (app / "honed_flower").mkdir(parents=True)
    source = EXAMPLE.parents[1] / "clients" / "flower"
    (app / "pyproject.toml").write_text((source / "pyproject.toml").read_text())
    (app / "README.md").write_text("# An app")
    for file in (source / "honed_flower").glob("*.py"):
        (app / "honed_flower" / file.name).write_text(file.read_text())
    bad = app / "honed_flower" / "client_app.py"
    bad.write_text(MALICIOUS.format(mark=str(mark)))
    settings = {"model": str(folder / "m.onnx"), "output": str(folder / "theirs"), "nodes": 3}
    run = superlink.submit(app, rounds=1, deliver="never", **settings)
    assert superlink.finish(run) == "finished:completed"
    assert not mark.exists()


def test_a_superlink_that_vanishes_ends_the_training(
    superlink: SuperLink, devices: list[Device]
) -> None:
    before = [device.rounds_sent() for device in devices]
    run = begin_long(superlink, devices, "vanished")
    superlink.program.kill()
    for device in devices:
        wait_until(lambda d=device: stopped(d), "the round to be stopped", deadline_s=90)
        assert f"the SuperLink {superlink.address} is away" in device.node.said()
        wait_until(lambda d=device: "does not answer" in state(d).get("away", ""), "it to say so")
    assert [device.rounds_sent() for device in devices] == before
    superlink.start()
    wait_until(lambda: superlink.status(run), "the SuperLink to know its runs")
    end(superlink, run)
    assert superlink.finish(begin(superlink, "again")) == "finished:completed"
    for device in devices:
        assert f"the SuperLink {superlink.address} does not answer: " in device.node.said()
        wait_until(lambda d=device: "away" not in state(d), "it to have heard of the SuperLink")


def test_a_server_with_another_certificate_is_refused(
    superlink: SuperLink, devices: list[Device], folder: Path, flower: Path
) -> None:
    other = copy(superlink)
    other.certificates = certificates(folder / "others")
    stranger = Device(folder / "stranger")
    try:
        stranger.register(MODEL, network())
        stranger.join(other)
        node = stranger.node
        assert isinstance(node, Program)
        wait_until(lambda: node.process.poll() is not None, "the node to end", deadline_s=60)
        assert node.process.poll() != 0
        assert "certificate verify failed" in node.said()
    finally:
        stranger.stop()


def test_a_node_that_nobody_let_in_is_refused(
    superlink: SuperLink, folder: Path, flower: Path
) -> None:
    stranger = Device(folder / "uninvited")
    try:
        stranger.register(MODEL, network())
        stranger.join(superlink)
        node = stranger.node
        assert isinstance(node, Program)
        wait_until(lambda: node.process.poll() is not None, "the node to end", deadline_s=60)
        assert node.process.poll() != 0
        assert f"have {stranger.folder}/node/node.pub registered there" in node.said()
    finally:
        stranger.stop()


@pytest.mark.parametrize(
    ("offset_s", "told"), [(630, r"6\d\d s ahead of"), (-930, r"9\d\d s behind")]
)
def test_a_node_whose_clock_is_wrong_is_told_so(
    superlink: SuperLink, folder: Path, offset_s: int, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = folder / f"clock{offset_s}"
    clock.mkdir()
    (clock / "sitecustomize.py").write_text(WRONG_CLOCK.format(offset_s=offset_s))
    paths = [str(clock), *filter(None, [os.environ.get("PYTHONPATH")])]
    late = Device(folder / f"late{offset_s}")
    try:
        late.register(MODEL, network())
        superlink.register(late.key(superlink))
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
        late.join(superlink)
        node = late.node
        assert isinstance(node, Program)
        wait_until(lambda: node.process.poll() is not None, "the node to end", deadline_s=60)
        assert node.process.poll() != 0
        assert re.search(f"clock is {told} the SuperLink's", node.said())
    finally:
        late.stop()


def test_a_node_that_was_killed_stops_what_it_had_begun(
    superlink: SuperLink, devices: list[Device]
) -> None:
    run = begin_long(superlink, devices, "killed")
    device = devices[0]
    assert isinstance(device.node, Program)
    device.node.process.kill()  # not the SuperNode, its child
    device.node.process.wait()
    assert device.left_over() == 1
    assert state(device)["round_id"] == device.jobs(model=MODEL)[0]["id"]
    device.join(superlink, patience=5)
    wait_until(lambda: stopped(device), "the round to be stopped", deadline_s=60)
    end(superlink, run)
    node = device.node
    wait_until(lambda: node.said().count("SuperNode ID") == 2, "the SuperLink to take it again")


def test_a_daemon_that_was_killed_goes_on_with_its_round(
    superlink: SuperLink, devices: list[Device]
) -> None:
    before = [device.rounds_sent() for device in devices]
    run = begin(superlink, "resumed", max_steps=4000, epochs=0)
    device = devices[1]
    wait_until(device.is_stepping, "a round in its middle")
    device.daemon.kill()
    device.start()
    assert superlink.finish(run) == "finished:completed"
    told = "\n\n".join(device.node.said()[-1500:] for device in devices if device.node)
    assert [each.rounds_sent() for each in devices] == [each + 1 for each in before], told


def test_a_node_whose_token_is_revoked_ends_at_the_next_message(
    superlink: SuperLink, devices: list[Device]
) -> None:
    http, node = devices[2].http, devices[2].node
    assert isinstance(node, Program)
    wait_until(lambda: "SuperNode ID" in node.said(), "the SuperLink to take the node")
    for token in http.get("/v1/tokens").json()["items"]:
        http.delete(f"/v1/tokens/{token['id']}").raise_for_status()
    run = begin(superlink, "revoked")
    wait_until(lambda: node.process.poll() == 1, "the node to end", deadline_s=60)
    assert re.search(r"the daemon refuses this node: token .* was revoked", node.said())
    assert superlink.finish(run) == "finished:completed"
