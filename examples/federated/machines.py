"""The machines of the example, all on this one: a SuperLink, and devices, each with its daemon."""

from __future__ import annotations

import io
import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).parents[2]
APP = ROOT / "clients" / "flower"
MODEL = "digits"
DEADLINE_S = 300.0
PLUGGED, UNPLUGGED = ("1", "Charging"), ("0", "Discharging")
LISTENS = "Uvicorn running"
"""What a SuperLink writes once it does."""


def wait_for(condition: Callable[[], Any], what: str, deadline_s: float = DEADLINE_S) -> Any:
    """Ask until the answer is true."""
    until = time.monotonic() + deadline_s
    while not (answer := condition()):
        if time.monotonic() > until:
            raise TimeoutError(f"waited {deadline_s:g} s for {what}")
        time.sleep(0.1)
    return answer


def free_port() -> int:
    """One that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


class Program:
    """A process whose output goes to a file."""

    def __init__(self, command: list[str], log: Path, **variables: str) -> None:
        self.log = log
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("HONED_", "FLWR_"))}
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                command,
                env={**kept, **variables},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def said(self) -> str:
        """All that it has written."""
        return self.log.read_text("utf-8", errors="replace")

    def stop(self) -> None:
        """End it in order."""
        self.process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(30)
        self.kill()

    def kill(self) -> None:
        """End it and what it started as a power cut would."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, 9)
        self.process.wait()


def certificates(folder: Path) -> Path:
    """A certificate of localhost by an authority of our own: ca.pem, server.pem, server.key."""
    folder.mkdir(parents=True)
    request = ["req", "-newkey", "rsa:2048", "-nodes"]
    (folder / "names").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1")
    for command in (
        [
            *request,
            "-x509",
            "-days",
            "30",
            "-keyout",
            "ca.key",
            "-out",
            "ca.pem",
            "-subj",
            "/CN=ca",
        ],
        [*request, "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=localhost"],
        [
            *("x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key"),
            *("-CAcreateserial", "-days", "30", "-extfile", "names", "-out", "server.pem"),
        ],
    ):
        subprocess.run(["openssl", *command], cwd=folder, check=True, capture_output=True)
    return folder


class SuperLink:
    """Flower's server, with TLS and keys of nodes. environment: where honed-flower is installed."""

    def __init__(self, folder: Path, environment: Path, *, port: int | None = None) -> None:
        self.folder = folder
        self.programs = environment / "bin"
        self.certificates = folder / "certificates"
        if not self.certificates.exists():
            certificates(self.certificates)
        self.port = port or free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.variables = {
            "FLWR_HOME": str(folder / "flwr"),
            "FLWR_TELEMETRY_ENABLED": "0",
            "PATH": f"{self.programs}:{os.environ['PATH']}",
        }
        (folder / "flwr").mkdir(exist_ok=True)
        (folder / "flwr" / "config.toml").write_text(
            f'[superlink]\ndefault = "here"\n[superlink.here]\naddress = "{self.address}"\n'
            f'root-certificates = "{self.certificates / "ca.pem"}"\n'
        )
        self.start()

    def start(self) -> None:
        """As docs/federated.md starts it. Again it writes behind what it has written."""
        log = self.folder / "superlink.log"
        starts = log.read_text("utf-8").count(LISTENS) if log.exists() else 0
        self.program = Program(
            [
                str(self.programs / "flower-superlink"),
                *("--ssl-certfile", str(self.certificates / "server.pem")),
                *("--ssl-keyfile", str(self.certificates / "server.key")),
                *("--ssl-ca-certfile", str(self.certificates / "ca.pem")),
                "--enable-supernode-auth",
                "--disable-runtime-dependency-installation",
                *("--host", "127.0.0.1", "--port", str(self.port)),
                *("--database", str(self.folder / "superlink.db")),
            ],
            log,
            **self.variables,
        )
        wait_for(lambda: self.program.said().count(LISTENS) > starts, "the SuperLink to listen")

    def register(self, public_key: Path) -> None:
        """Let a node in."""
        self.flwr("supernode", "register", str(public_key), "here")

    def submit(self, app: Path = APP, **settings: object) -> str:
        """Begin a run; its id."""
        config = " ".join(
            f"{name.replace('_', '-')}={json.dumps(value)}" for name, value in settings.items()
        )
        answer = self.flwr("run", str(app), "here", "--run-config", config, "--format", "json")
        return str(json.loads(answer[answer.index("{") :])["run-id"])

    def status(self, run_id: str) -> str:
        """`running`, `finished:completed`, …"""
        answer = self.flwr("list", "--run-id", run_id, "here", "--format", "json")
        runs = json.loads(answer[answer.index("{") :])["runs"]
        status: str = runs[0]["status"]
        return status

    def finish(self, run_id: str) -> str:
        """Wait for the end of a run; how it ended."""
        return wait_for(
            lambda: (found := self.status(run_id)).startswith("finished") and found,
            f"run {run_id} to end",
            deadline_s=1800,
        )

    def flwr(self, *arguments: str) -> str:
        """Flower's command line; its output."""
        done = subprocess.run(
            [str(self.programs / "flwr"), *arguments],
            env={**os.environ, **self.variables},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"flwr {' '.join(arguments)}: {done.stdout}{done.stderr}")
        return done.stdout


class Device:
    """A daemon with a data folder and a power supply of its own, and its node of the federation."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sysfs = folder / "sys"
        self.node: Program | None = None
        folder.mkdir(parents=True, exist_ok=True)
        self.power(PLUGGED)
        self.start()

    def start(self) -> None:
        """Start the daemon, or start it again, at the port it had."""
        data = self.folder / "data"
        port = getattr(self, "port", 0)
        variables = {
            "HONED_CONFIG": os.devnull,
            "HONED_SYSFS_ROOT": str(self.sysfs),
            "PYTHONPATH": str(ROOT),
        }
        command = [sys.executable, "-m", "cli", "serve", "--port", str(port)]
        log = self.folder / "daemon.log"
        log.unlink(missing_ok=True)
        self.daemon = Program([*command, "--data-dir", str(data)], log, **variables)
        pattern = r"listens on (http://127\.0\.0\.1:(\d+))"
        found = wait_for(lambda: re.search(pattern, self.daemon.said()), "the daemon to listen")
        self.url, self.port = found[1], int(found[2])
        token = (data / "admin.token").read_text().strip()
        if hasattr(self, "http"):
            self.http.close()
        self.http = httpx.Client(
            base_url=self.url, headers={"Authorization": f"Bearer {token}"}, timeout=300
        )
        wait_for(self._is_ready, "the daemon to be ready")

    def power(self, state: tuple[str, str]) -> None:
        """Plug it in, or unplug it."""
        online, status = state
        for name, value in {
            "AC/type": "Mains",
            "AC/online": online,
            "BAT0/type": "Battery",
            "BAT0/capacity": "80",
            "BAT0/status": status,
        }.items():
            path = self.sysfs / "class/power_supply" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            fresh = path.with_name(path.name + ".new")
            fresh.write_text(value + "\n")
            fresh.replace(path)

    def register(self, name: str, model: bytes) -> None:
        """A model of this name, to be trained."""
        spec = json.dumps({"name": name, "loss": "cross_entropy"})
        files = {"model": ("model.onnx", model)}
        self.http.post("/v1/models", data={"spec": spec}, files=files).raise_for_status()

    def upload(self, name: str, images: NDArray[np.float32], labels: NDArray[np.int64]) -> None:
        """Samples, of which the daemon keeps some for validation."""
        buffer = io.BytesIO()
        np.savez(buffer, x=images, label=labels)
        headers = {"Content-Type": "application/x-npz"}
        path = f"/v1/models/{name}/samples"
        self.http.post(path, content=buffer.getvalue(), headers=headers).raise_for_status()

    def allow(self, superlink: str, **terms: object) -> None:
        """Consent to a federation."""
        body = {"federation": {"allowed": True, "superlink": superlink, **terms}}
        self.http.patch(f"/v1/models/{MODEL}", json=body).raise_for_status()

    def join(self, superlink: SuperLink, *programs: str, **options: object) -> None:
        """Start the node, as docs/federated.md does. programs: by default honed-flower's."""
        token = self.http.post(
            "/v1/tokens",
            json={"name": f"bridge-{time.time_ns()}", "scopes": ["federate"], "models": [MODEL]},
        ).raise_for_status()
        command = [
            *(programs or [str(superlink.programs / "honed-flower")]),
            "join",
            superlink.address,
        ]
        self.node = Program(
            [
                *command,
                *("--model", MODEL, "--folder", str(self.folder / "node")),
                *("--root-certificates", str(superlink.certificates / "ca.pem")),
                *(f"--{name}={value}" for name, value in options.items()),
            ],
            self.folder / "node.log",
            HONED_URL=self.url,
            HONED_TOKEN=token.json()["secret"],
        )

    def key(self, superlink: SuperLink) -> Path:
        """The public key of its node."""
        folder = self.folder / "node"
        program = [str(superlink.programs / "honed-flower"), "key", "--folder", str(folder)]
        subprocess.run(program, check=True, capture_output=True)
        return folder / "node.pub"

    def jobs(self, **query: str) -> list[dict[str, Any]]:
        """Its newest jobs, newest first."""
        items: list[dict[str, Any]] = self.http.get("/v1/jobs", params=query).json()["items"]
        return items

    def finish(self, job_id: int) -> dict[str, Any]:
        """Wait for the end of a job."""

        def ended() -> dict[str, Any] | None:
            job: dict[str, Any] = self.http.get(f"/v1/jobs/{job_id}").json()
            return job if job["state"] in {"succeeded", "failed", "cancelled"} else None

        found: dict[str, Any] = wait_for(ended, f"job {job_id} to end")
        return found

    def federation(self) -> dict[str, Any]:
        """Its consent, and what was spent."""
        found: dict[str, Any] = self.http.get(f"/v1/models/{MODEL}/federation").json()
        return found

    def rounds_sent(self) -> int:
        """How many updates it has made, by the books."""
        spent = self.federation()["spent"]
        return int(spent["rounds"] + spent["rounds_without_noise"])

    def is_stepping(self) -> bool:
        """Whether a round is in the middle."""
        running = self.jobs(model=MODEL, state="running")
        return any(each["progress"]["step"] for each in running)

    def arrival(self) -> int | None:
        """The newest job, if it is that of a global model."""
        newest = self.jobs(model=MODEL)[0]
        return int(newest["id"]) if newest["trigger"] == "parameters" else None

    def left_over(self) -> int:
        """Rounds that have not ended."""
        states = ("queued", "running", "paused")
        return sum(len(self.jobs(model=MODEL, state=state)) for state in states)

    def model(self, name: str) -> bytes:
        """What apps on it get: the ONNX file of `latest`."""
        return self.http.get(f"/v1/models/{name}/latest/model.onnx").raise_for_status().content

    def stop(self) -> None:
        """Node, then daemon."""
        if self.node is not None:
            self.node.stop()
        self.http.close()
        self.daemon.stop()

    def kill(self) -> None:
        """Both at once, as a power cut."""
        if self.node is not None:
            self.node.kill()
        self.daemon.kill()

    def _is_ready(self) -> bool:
        try:
            return self.http.get("/readyz").status_code == 200
        except httpx.TransportError:
            return False
