"""Flower's SuperLink of the example, with TLS and keys of nodes."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from processes import DEADLINE_S, Program, free_port, wait_for

APP = Path(__file__).parents[2] / "clients" / "flower"
LISTENS = "Uvicorn running"
"""What a SuperLink writes once it does."""
RUN_DEADLINE_S = 3600.0


def certificates(folder: Path) -> Path:
    """A certificate of localhost by an authority of our own: ca.pem, server.pem, server.key."""
    folder.mkdir(parents=True)
    (folder / "names").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1")
    request = "req -newkey rsa:2048 -nodes"
    signing = "x509 -req -CA ca.pem -CAkey ca.key -CAcreateserial -days 30 -extfile names"
    for command in (
        f"{request} -x509 -days 30 -keyout ca.key -out ca.pem -subj /CN=ca",
        f"{request} -keyout server.key -out server.csr -subj /CN=localhost",
        f"{signing} -in server.csr -out server.pem",
    ):
        program = ["openssl", *command.split()]
        subprocess.run(program, cwd=folder, check=True, capture_output=True)
    return folder


class SuperLink:
    """Flower's server, with TLS and keys of nodes. environment: where honed-flower is installed."""

    def __init__(self, folder: Path, environment: Path) -> None:
        self.folder = folder
        self.programs = environment / "bin"
        self.certificates = folder / "certificates"
        certificates(self.certificates)
        self.port = free_port()
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
        """As docs/federated.md starts it."""
        log = self.folder / "superlink.log"
        log.unlink(missing_ok=True)
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
        wait_for(lambda: LISTENS in self.program.said(), "the SuperLink to listen")

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
        """Wait for the end of a run, which its log ends with; how it ended.

        To ask for its status until then would keep a processor busy with starting `flwr`.
        """
        self.flwr("log", run_id, "here", "--stream", deadline_s=RUN_DEADLINE_S)
        return wait_for(
            lambda: (found := self.status(run_id)).startswith("finished") and found,
            f"run {run_id} to end",
        )

    def flwr(self, *arguments: str, deadline_s: float = DEADLINE_S) -> str:
        """Flower's command line; its output."""
        done = subprocess.run(
            [str(self.programs / "flwr"), *arguments],
            env={**os.environ, **self.variables},
            capture_output=True,
            text=True,
            check=False,
            timeout=deadline_s,
        )
        if done.returncode:
            raise RuntimeError(f"flwr {' '.join(arguments)}: {done.stdout}{done.stderr}")
        return done.stdout
