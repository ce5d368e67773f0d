"""The installed program takes its own modules, whatever lies in the working folder or beside it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from installation_environment import (
    DEADLINE_S,
    ROOT,
    Environment,
    environment,
    install,
)
from support import wait_until

from cli.commands.federate import PACKAGES

DIGITS = ROOT / "examples" / "digits"


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    made = environment(tmp_path_factory.mktemp("installed"))
    install(made, wheel)
    return made


@contextmanager
def serving(made: Environment) -> Iterator[httpx.Client]:
    """`honed serve` on a data folder that is named by a relative path."""
    log = made.working_dir / "serve.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [made.program, "serve", "--port", "0", "--data-dir", "data"],
            cwd=made.working_dir,
            env=made.variables,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )

    def url() -> str | None:
        text = log.read_text("utf-8")
        assert process.poll() is None, text
        return text.partition("listens on ")[2].partition("\n")[0] or None

    try:
        address = wait_until(url, "the daemon to listen")
        token = (made.working_dir / "data" / "admin.token").read_text().strip()
        headers = {"Authorization": f"Bearer {token}"}
        with httpx.Client(
            base_url=address, headers=headers, timeout=DEADLINE_S, trust_env=False
        ) as client:
            yield client
    finally:
        process.terminate()
        process.wait(DEADLINE_S)


def test_the_wheel_installs_one_folder(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        tops = {name.partition("/")[0] for name in archive.namelist()}
    # What is in .data goes elsewhere: the manual page.
    beside = {top for top in tops if top.endswith((".dist-info", ".data"))}
    assert tops - beside == {"honed"}


def test_the_daemon_its_children_and_a_second_start_run_no_decoy(installed: Environment) -> None:
    with serving(installed) as client:
        assert client.get("/openapi.json").json()["info"]["title"] == "Hone"
        made = client.post(
            "/v1/models",
            data={"spec": json.dumps({"name": "digits", "loss": "cross_entropy"})},
            files={"model": ("base.onnx", (DIGITS / "base.onnx").read_bytes())},
        )
        assert made.status_code == 201, made.text
        blank = {"inputs": {"image": [[[0.0] * 8] * 8]}}
        answer = client.post("/v1/models/digits/predict", json=blank)
        assert answer.status_code == 200, answer.text
        samples = (DIGITS / "device.npz").read_bytes()
        kind = {"Content-Type": "application/x-npz"}
        added = client.post("/v1/models/digits/samples", content=samples, headers=kind)
        assert added.status_code == 201, added.text
    with serving(installed) as client:
        assert client.get("/v1/models/digits").json()["samples"]["train"]
    assert installed.decoys_that_ran() == []


def test_the_doctor_finds_nothing_wrong_among_decoys(installed: Environment) -> None:
    done = installed.run(installed.program, "doctor", "--json")
    found = {check["name"]: check["status"] for check in json.loads(done.stdout)}
    assert found["training"] == "ok", done.stdout
    assert installed.decoys_that_ran() == []


def test_the_demo_runs_among_decoys_and_leaves_nothing_behind(
    installed: Environment, tmp_path: Path
) -> None:
    variables = {**installed.variables, "TMPDIR": str(tmp_path), "TEMP": str(tmp_path)}
    done = replace(installed, variables=variables).run(installed.program, "demo")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "once `honed serve` runs" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert list(tmp_path.iterdir()) == []
    assert installed.decoys_that_ran() == []


@pytest.mark.skipif(os.name != "posix", reason="other folders elsewhere")
def test_an_installation_for_one_user_runs_beside_the_same_names(
    wheel: Path, tmp_path: Path
) -> None:
    made = environment(tmp_path, system_packages=True)
    base = tmp_path / "user"
    install(made, "--user", wheel, PYTHONUSERBASE=str(base))
    made.variables["PYTHONUSERBASE"] = str(base)
    program = base / "bin" / "honed"
    done = made.run(program, "doctor", "--json")
    assert json.loads(done.stdout)[0]["status"] == "ok", done.stdout + done.stderr
    assert made.decoys_that_ran() == []


def test_the_packages_of_a_federation_are_beside_the_installed_program(
    installed: Environment, tmp_path: Path
) -> None:
    code = "from honed.service.processes.interpreter import APPLICATION; print(APPLICATION)"
    application = Path(installed.run(installed.python, "-I", "-c", code).stdout.strip())
    packages = [application / each for each in PACKAGES]
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--no-deps"]
    options = ["--no-build-isolation", "--no-index", "-w", tmp_path]
    subprocess.run([*pip, *options, *packages], check=True)
    names = sorted(path.name.partition("-")[0] for path in tmp_path.iterdir())
    assert names == ["honed_client", "honed_flower"]


def test_an_editable_installation_runs_the_repository(tmp_path: Path) -> None:
    made = environment(tmp_path)
    install(made, "--editable", ROOT)
    done = made.run(made.program, "doctor", "--json")
    found = {check["name"]: check["status"] for check in json.loads(done.stdout)}
    assert found["training"] == "ok", done.stdout + done.stderr
    assert made.decoys_that_ran() == []
