"""The service of Windows in Wine's service manager: real processes, real controls, real pywin32."""

from __future__ import annotations

import json
import os
import signal

import psutil
import pytest
from support import Served, blobs, client, mlp, wait_until

RECIPE = {"max_steps": 200_000, "batch_size": 16, "seed": 5}
URL = "http://127.0.0.1:8471"


class Service(Served):
    """A daemon that Windows has started."""

    def __init__(self, windows):
        self.folder = windows.drive / "ProgramData/Hone"
        self.data_dir, self.log = self.folder / "data", self.folder / "honed.log"
        self._said_from = 0
        self.url = URL
        wait_until(self._answers, "the service to answer")
        self.token = (self.data_dir / "admin.token").read_text().strip()
        self.tokenless, self.http = client(URL), client(URL, token=self.token)

    def close(self):
        """Close the connections."""
        self.tokenless.close()
        self.http.close()

    def step(self, job_id):
        """Of a job that runs; 0 while it does not."""
        job = self.job(job_id)
        return job["progress"]["step"] if job["state"] == "running" else 0

    def events(self):
        """What its log says has happened, oldest first."""
        lines = self.log.read_text("utf-8").splitlines()
        return [json.loads(line)["event"] for line in lines if line.startswith("{")]


@pytest.fixture
def honed_service(windows):
    """`honed service COMMAND`; in the end there is none."""

    def run(command, **options):
        return windows.honed("service", command, **options)

    yield run
    if state(run) != "not installed":
        run("uninstall")


@pytest.fixture
def connect(windows):
    """Wait until the service answers, as one that has just been started."""
    connected = []

    def connect():
        connected.append(Service(windows))
        return connected[-1]

    yield connect
    for service in connected:
        service.close()


def state(honed_service):
    return honed_service("status").strip().removeprefix("honed  ")


def process_of_the_service():
    """The process of this side."""
    found = [
        process
        for process in psutil.process_iter(["cmdline"])
        if {"service", "run", "--data-dir"} <= set(process.info["cmdline"] or ())
    ]
    return found[0] if found else None


def children():
    """Training children of Windows on this side."""
    listed = (process.info["cmdline"] for process in psutil.process_iter(["cmdline"]))
    return [each for each in listed if each and "\\" in each[0] and "service.training" in each]


def test_the_service_keeps_its_job_through_stops_kills_and_a_second_installation(
    windows, honed_service, connect
):
    assert state(honed_service) == "not installed"
    assert "started honed" in honed_service("install")
    service = connect()
    assert state(honed_service) == "running"
    assert "already" in honed_service("install", fails=True)
    service.register("m", mlp(32, 64, 4))
    assert service.upload("m", **blobs(500, 32, 4)).status_code == 201
    job_id = service.ask_for_job("m", **RECIPE)["id"]
    wait_until(lambda: service.step(job_id) > 100, "the job to train")

    reached = service.step(job_id)
    windows.run("net", "stop", "honed")
    wait_until(lambda: process_of_the_service() is None, "the end of the process")
    assert state(honed_service) == "stopped"
    assert service.events()[-1] == "daemon.stopped"
    assert (service.data_dir / "hone.lock").read_text().strip() == ""

    windows.run("net", "start", "honed")
    service = connect()
    wait_until(lambda: service.step(job_id) > reached, "the job to go on from its checkpoint")

    # As after a crash; Wine does not start it again, which Windows does by itself.
    os.kill(process_of_the_service().pid, signal.SIGKILL)
    wait_until(lambda: state(honed_service) == "stopped", "Windows to see the end")
    wait_until(lambda: not children(), "its children to end with it")
    windows.run("net", "start", "honed")
    service = connect()
    wait_until(lambda: service.step(job_id) > reached, "the job to go on after a crash")

    told = honed_service("uninstall")
    assert "stopped honed" in told
    assert "its data stay" in told
    assert state(honed_service) == "not installed"
    assert process_of_the_service() is None

    honed_service("install")
    service = connect()
    wait_until(lambda: service.step(job_id) > reached, "the job to go on after an installation")
    service.http.post(f"/v1/jobs/{job_id}/cancel").raise_for_status()
    assert service.wait_for_job(job_id)["state"] == "cancelled"
