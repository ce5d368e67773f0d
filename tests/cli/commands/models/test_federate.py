"""`honed federate`, as far as it goes without Flower; make test-flower goes further."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cli.commands import federate
from cli.demo import digits
from cli.errors import Failure

JOIN = ("federate", "join", "fl.example:9092", "--model")


@pytest.fixture
def model(honed: Callable[..., Any]) -> Iterator[str]:
    source = digits.folder() / "base.onnx"
    honed("models", "add", source, "--name", "together", "--loss", "cross_entropy")
    yield "together"
    honed("models", "remove", "together", "--yes")


@pytest.fixture
def states(tmp_path: Path) -> Path:
    """Where the nodes of this data folder have theirs."""
    folder = tmp_path / "data-federate"
    (folder / "digits").mkdir(parents=True)
    return folder


def test_nobody_joins_without_consent_to_this_federation(
    honed: Callable[..., Any], model: str, states: Path
) -> None:
    done = honed(*JOIN, model)
    assert done.returncode == 1
    assert f"{model!r} has consent to none" in done.stderr
    assert f"honed federation set {model} allowed=true superlink=fl.example:9092" in done.stderr
    honed("federation", "set", model, "allowed=true", "superlink=other:9092")
    refused = honed(*JOIN, model).stderr
    assert "has consent to other:9092" in refused
    assert f"first `honed federation set {model} allowed=false`" in refused
    assert not (states / "environment").exists()


def test_status_tells_what_takes_part(honed: Callable[..., Any], states: Path) -> None:
    state = {"superlink": "fl.example:9092", "replies": 3, "bytes": 1234, "connected": True}
    file = states / "digits" / "state.json"
    file.write_text(json.dumps({**state, "pid": os.getpid(), "doing": "train", "last": "sent"}))
    row = honed("federate", "status").stdout.splitlines()[1].split()
    assert row == ["digits", "fl.example:9092", "train", "3", "1234", "sent"]
    why = "the SuperLink fl.example:9092 does not answer: timed out"
    file.write_text(json.dumps({**state, "pid": os.getpid(), "away": why}))
    assert why in honed("federate", "status").stdout
    file.write_text(json.dumps({**state, "connected": None}))
    assert "not running" in honed("federate", "status").stdout
    shown = json.loads(honed("federate", "status", "--json").stdout)
    assert shown[0]["replies"] == 3


def test_no_package_of_a_name_that_anybody_may_take_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(federate, "APPLICATION", tmp_path)
    with pytest.raises(Failure, match=r"no clients/python and clients/flower beside it; run"):
        federate._installed(tmp_path / "environment")
    assert not (tmp_path / "environment").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="a shell stands in for honed-flower")
def test_who_joins_gets_a_token_that_may_take_part_and_nothing_else(
    honed: Callable[..., Any], model: str, states: Path, variables: dict[str, str]
) -> None:
    """A shell in the place of honed-flower tells what it was started with."""
    honed("federation", "set", model, "allowed=true", "superlink=fl.example:9092")
    program = states / "environment" / "bin" / "honed-flower"
    program.parent.mkdir(parents=True)
    program.write_text('#!/bin/sh\necho "$@"\necho "$HONED_URL $HONED_TOKEN"\n')
    program.chmod(0o700)
    (states / "environment" / ".installed").touch()
    command = [sys.executable, "-m", "honed", *JOIN, model]
    environment = {**os.environ, **variables}
    told = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    arguments, (url, token) = told.stdout.splitlines()[0], told.stdout.splitlines()[1].split()
    assert arguments == f"join fl.example:9092 --model {model} --folder {states / model}"
    assert url == variables["HONED_URL"]
    assert honed("models", "show", model, HONED_TOKEN=token).returncode == 1
    made = json.loads((states / model / "token.json").read_text())
    assert (states / model / "token.json").stat().st_mode & 0o777 == 0o600
    shown = json.loads(honed("tokens", "show", made["id"], "--json").stdout)
    assert (shown["scopes"], shown["models"]) == (["federate"], [model])
    file = states / model / "token.json"
    file.write_text(json.dumps({**made, "created_at": "2026-01-01T00:00:00Z"}))
    joined = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    for refused in (joined, honed("federate", "leave", model)):
        assert refused.returncode == 1
        assert f"this daemon does not know the token in {file}" in refused.stderr
    file.write_text(json.dumps({"id": made["id"], "secret": made["secret"]}))  # of earlier nodes
    waits = [sys.executable, "-c", "input()"]
    with (
        subprocess.Popen(waits, stdin=subprocess.PIPE) as other,
        subprocess.Popen([*waits, "--folder", states / model], stdin=subprocess.PIPE) as node,
    ):
        for process, told in ((other, "revoked its token"), (node, "ended its node")):
            (states / model / "state.json").write_text(json.dumps({"pid": process.pid}))
            joined = subprocess.run(command, env=environment, capture_output=True, check=False)
            assert (b"runs already" in joined.stderr) is (process is node)
            assert honed("federate", "leave", model).stdout == f"{told}\n"
        assert node.poll() is not None
        assert other.poll() is None
        other.kill()
    assert "or it has left" in honed("federate", "leave", model).stderr
    file.write_text(json.dumps(made))  # of a token that is revoked
    again = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert again.stdout.split()[-1] not in (token, "")


def test_who_has_no_kind_of_service_can_leave_and_is_told_what_to_do_instead(
    honed: Callable[..., Any], model: str, states: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cli.services.bridge.sys.platform", "win32")
    done = honed(*JOIN, model, "--service")
    assert (done.returncode, "docs/windows.md" in done.stderr) == (1, True)
    assert not (states / "environment").exists()
    made = honed("tokens", "create", "node", "--scope", "federate", "--json")
    (states / model).mkdir()
    (states / model / "token.json").write_text(made.stdout)
    assert "revoked its token" in honed("federate", "leave", model).stdout


@pytest.mark.skipif(sys.platform != "linux", reason="the unit is of systemd")
def test_the_service_of_another_daemons_node_is_left_alone(
    honed: Callable[..., Any], model: str, states: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(states))
    unit = states / f"systemd/user/honed-federate-{model}.service"
    unit.parent.mkdir(parents=True)
    unit.write_text(f"[Service]\nEnvironmentFile=/elsewhere/data-federate/{model}/environment\n")
    honed("federation", "set", model, "allowed=true", "superlink=fl.example:9092")
    done = honed(*JOIN, model, "--service")
    assert (done.returncode, "belongs to another daemon's model" in done.stderr) == (1, True)
    assert not (states / "environment").exists()
    done = honed("federate", "leave", model)
    assert (done.returncode, f"no node of {model!r} here" in done.stderr) == (1, True)
    assert unit.exists()
