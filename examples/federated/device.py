"""A device of the example: a daemon with a power supply of its own, and its node."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from numpy.typing import NDArray
from processes import Program, wait_for
from superlink import SuperLink

ROOT = Path(__file__).parents[2]
MODEL = "digits"
PLUGGED, UNPLUGGED = ("1", "Charging"), ("0", "Discharging")


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

    def jobs(self, **query: str | tuple[str, ...]) -> list[dict[str, Any]]:
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
        return len(self.jobs(model=MODEL, state=states))

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
