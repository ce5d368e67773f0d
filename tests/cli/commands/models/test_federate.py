"""`honed federate`, as far as it goes without Flower; make test-flower goes further."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cli.demo import digits

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
    assert f"honed federation {model} allowed=true superlink=fl.example:9092" in done.stderr
    honed("federation", model, "allowed=true", "superlink=other:9092")
    assert "has consent to other:9092" in honed(*JOIN, model).stderr
    assert not (states / "environment").exists()


def test_status_tells_what_takes_part(honed: Callable[..., Any], states: Path) -> None:
    state = {"superlink": "fl.example:9092", "replies": 3, "bytes": 1234, "connected": True}
    file = states / "digits" / "state.json"
    file.write_text(json.dumps({**state, "pid": os.getpid(), "doing": "train", "last": "sent"}))
    row = honed("federate", "status").stdout.splitlines()[1].split()
    assert row == ["digits", "fl.example:9092", "train", "3", "1234", "sent"]
    file.write_text(json.dumps({**state, "connected": None}))
    assert "not running" in honed("federate", "status").stdout
    shown = json.loads(honed("federate", "status", "--json").stdout)
    assert shown[0]["replies"] == 3
