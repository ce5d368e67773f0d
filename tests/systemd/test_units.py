"""The units: what systemd says of them, and a daemon that works under their restrictions."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import as_systemd
import numpy as np
import pytest
from support import DEADLINE_S, Served, client, mlp, npz, wait_until

from api.connections import MAX_DESCRIPTORS
from cli.commands.serve import WRONG_SETTING
from service.processes.interpreter import APPLICATION

UNITS = APPLICATION / "systemd"
MAX_EXPOSURE = 1.0
needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze"
)
as_root = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0 or not as_systemd.NUMBERS.exists(),
    reason="makes namespaces and drops capabilities: root on Linux x86-64, with its headers",
)


@pytest.mark.parametrize("unit", ["honed.service", "user.service"])
def test_the_daemon_has_descriptors_for_many_clients_and_outlives_its_children(unit: str) -> None:
    text = (UNITS / unit).read_text("utf-8")
    assert "OOMPolicy=continue" in text.splitlines()
    (limit,) = re.findall(r"^LimitNOFILE=(\d+)$", text, re.MULTILINE)
    assert int(limit) == MAX_DESCRIPTORS


@pytest.mark.parametrize("unit", ["honed.service", "user.service"])
def test_a_wrong_setting_is_not_tried_again(unit: str) -> None:
    lines = (UNITS / unit).read_text("utf-8").splitlines()
    assert f"RestartPreventExitStatus={WRONG_SETTING}" in lines


@pytest.fixture
def units(tmp_path: Path) -> Path:
    """Copies, of a program that is there."""
    for path in UNITS.glob("honed.s*"):
        text = path.read_text("utf-8").replace("/opt/honed/bin/honed", sys.executable)
        (tmp_path / path.name).write_text(text, "utf-8")
    return tmp_path


def exposure(units: Path) -> str:
    said = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", units / "honed.service"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()[-1]
    sys.stdout.write(f"{said}\n")
    found = re.search(r"honed\.service: ([\d.]+)", said)
    assert found is not None, said
    return found[1]


@needs_systemd
def test_systemd_understands_the_units(units: Path) -> None:
    done = subprocess.run(
        ["systemd-analyze", "verify", units / "honed.service", units / "honed.socket"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


@needs_systemd
def test_the_service_is_exposed_as_little_as_promised(units: Path) -> None:
    assert float(exposure(units)) <= MAX_EXPOSURE


@needs_systemd
def test_tcp_costs_what_the_documentation_says(units: Path) -> None:
    (units / "honed.service.d").mkdir()
    shutil.copy(UNITS / "tcp.conf", units / "honed.service.d")
    documented = (APPLICATION / "docs" / "systemd.md").read_text("utf-8")
    assert f"exposure level {exposure(units)} with `tcp.conf`" in " ".join(documented.split())


@pytest.fixture
def restricted(tmp_path: Path) -> Iterator[Any]:
    """A client of a daemon that runs as the unit has it, and the process."""
    folder, path, log = tmp_path / "state", tmp_path / "api.sock", tmp_path / "log"
    folder.mkdir()
    kept = {k: v for k, v in os.environ.items() if not k.startswith("HONED_")}
    own = {"HONED_CONFIG": os.devnull, "HONED_TCP": "false", "STATE_DIRECTORY": str(folder)}
    with log.open("wb") as output:
        process = subprocess.Popen(
            [
                *(sys.executable, as_systemd.__file__, folder, path),
                *(sys.executable, "-m", "honed", "serve"),
            ],
            env={**kept, **own, "PYTHONPATH": str(APPLICATION)},
            stdout=output,
            stderr=subprocess.STDOUT,
        )

    def is_listening() -> bool:
        assert process.poll() is None, log.read_text()
        return "the admin token is" in log.read_text()

    wait_until(is_listening, "the daemon to listen")
    with client(f"unix:{path}") as asking:
        yield asking, process, log
    process.terminate()
    process.wait(DEADLINE_S)


def done(http: Any, url: str, state: str) -> dict[str, Any] | None:
    job: dict[str, Any] = http.get(url).json()
    assert job["state"] not in {"failed", "cancelled"}, job
    return job if job["state"] == state else None


@needs_systemd
@as_root
def test_a_daemon_trains_predicts_and_sees_the_device_under_the_units_restrictions(
    restricted: Any, served: Served
) -> None:
    http, process, log = restricted
    status = Path(f"/proc/{process.pid}/status").read_text()
    assert "CapEff:\t0000000000000000" in status
    assert "Seccomp:\t2" in status
    assert len(Path(f"/proc/{process.pid}/net/dev").read_text().splitlines()) == 3  # lo alone
    answer = http.post(
        "/v1/models",
        data={"spec": '{"name": "m", "loss": "cross_entropy"}'},
        files={"model": ("m.onnx", mlp(8, 16, 3))},
    )
    assert answer.status_code == 201, answer.text
    generator = np.random.default_rng(0)
    x = generator.standard_normal((400, 8)).astype(np.float32)
    answer = http.post(
        "/v1/models/m/samples",
        content=npz(x=x, label=np.abs(x[:, :3]).argmax(axis=1)),
        headers={"Content-Type": "application/x-npz"},
    )
    assert answer.status_code == 201, answer.text
    asked = {"epochs": 400, "ignore_policy": True}
    job = http.post("/v1/models/m/jobs", json=asked).headers["Location"]
    wait_until(lambda: done(http, job, "running"), "the job to run")
    child = wait_until(lambda: confined_child(process.pid), "a child with filters of both kinds")
    assert "NoNewPrivs:\t1" in child
    wait_until(lambda: done(http, job, "succeeded"), "the job to succeed")
    answer = http.post("/v1/models/m/predict", json={"inputs": {"x": x[0].tolist()}})
    assert answer.status_code == 200, answer.text
    assert known_signals(http) == known_signals(served.http)
    said = log.read_text()
    assert "not_lowered" not in said
    assert "oom_score" not in said


def confined_child(pid: int) -> str | None:
    """The status of a child that runs under the unit's filter and under its own."""
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        status = Path(f"/proc/{child}/status").read_text()
        if "Seccomp_filters:\t2" in status:
            return status
    return None


def known_signals(http: Any) -> set[str]:
    signals = http.get("/v1/device").json()["signals"]
    return {name for name, signal in signals.items() if signal["value"] is not None}
