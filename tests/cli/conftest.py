"""One real daemon for the folder, and the real program `honed` beside it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from support import DEADLINE_S, Served, wait_until

from cli import main
from cli.client import Client, model_path
from cli.demo import digits
from cli.demo.daemon import DaemonProcess

Completed = subprocess.CompletedProcess[str]


@pytest.fixture(scope="session")
def daemon(tmp_path_factory: pytest.TempPathFactory, database: Path) -> Iterator[DaemonProcess]:
    served = Served(tmp_path_factory.mktemp("daemon") / "data", database=database)
    client = Client(url=served.url, token=served.token)
    yield DaemonProcess(served.process, client, served.data_dir / "admin.token", ready_s=0)
    client.close()
    served.stop()


@pytest.fixture(scope="session")
def client(daemon: DaemonProcess) -> Client:
    return daemon.client


@pytest.fixture
def clean_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No settings of this machine; data in a folder of the test."""
    for name in [name for name in os.environ if name.startswith("HONED_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HONED_CONFIG", os.devnull)
    monkeypatch.setenv("HONED_DATA_DIR", str(tmp_path / "data"))


@pytest.fixture
def variables(daemon: DaemonProcess, clean_environment: None) -> dict[str, str]:
    """Environment variables that lead to the daemon."""
    token = daemon.token_file.read_text(encoding="ascii").strip()
    return {"HONED_URL": daemon.client.url, "HONED_TOKEN": token}


@pytest.fixture
def honed(variables: dict[str, str]) -> Callable[..., Completed]:
    """Run a command in this process; keyword arguments are environment variables."""

    def run(*arguments: object, **more: str) -> Completed:
        words = [str(argument) for argument in arguments]
        result = CliRunner().invoke(
            main.honed, words, env={**variables, **more}, catch_exceptions=False
        )
        return Completed(words, result.exit_code, result.stdout, result.stderr)

    return run


@pytest.fixture
def program(variables: dict[str, str]) -> Callable[..., Completed]:
    """Run a command as a program of its own."""

    def run(*arguments: object) -> Completed:
        return subprocess.run(
            [sys.executable, "-m", "honed", *map(str, arguments)],
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=DEADLINE_S,
            env={**os.environ, "PYTHONUTF8": "1", **variables},
            check=False,
        )

    return run


@pytest.fixture
def add_model(client: Client, request: pytest.FixtureRequest) -> Callable[..., str]:
    """Register the digit reader under the test's own name, with `samples` labelled samples."""

    def add(samples: int = 0) -> str:
        name = request.node.name.replace("[", ".").replace("]", "")[:64]
        base = (digits.folder() / "base.onnx").read_bytes()
        client.request(
            "POST",
            "/v1/models",
            data={"spec": f'{{"name": "{name}", "loss": "cross_entropy"}}'},
            files={"model": ("base.onnx", base)},
        )
        if samples:
            images, labels = (array[:samples] for array in digits.kept_back())
            body = {
                "samples": [
                    {"inputs": {"image": image.tolist()}, "label": int(label)}
                    for image, label in zip(images, labels, strict=True)
                ]
            }
            client.post(model_path(name, "samples"), body)
        return name

    return add


@pytest.fixture
def wait_for() -> Callable[..., Any]:
    """Ask until the answer is true, or fail at a deadline."""
    return wait_until


@pytest.fixture
def npz(tmp_path: Path) -> Callable[..., Path]:
    """Write the first `count` digits kept back as an npz, changed as the test wishes."""

    def write(count: int, **changes: Any) -> Path:
        images, labels = digits.kept_back()
        arrays = {"image": images[:count], "label": labels[:count], **changes}
        path = tmp_path / "samples.npz"
        np.savez(path, **arrays)
        return path

    return write
