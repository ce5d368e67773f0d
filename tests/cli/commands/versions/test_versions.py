from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli.client import Client, model_path
from cli.commands.versions import fetch
from cli.demo import digits
from cli.errors import Failure


def test_the_newest_version_is_fetched_once(
    honed: Callable[..., Any], add_model: Callable[..., str], tmp_path: Path
) -> None:
    name, output = add_model(samples=200), tmp_path / "model.onnx"
    recipe = ("--epochs", 20, "--learning-rate", 0.005)
    assert honed("train", name, *recipe, "--watch").returncode == 0

    fetched = json.loads(honed("fetch", name, "-o", output, "--json").stdout)
    assert (fetched["version"], fetched["fetched"]) == (2, True)
    assert hashlib.sha256(output.read_bytes()).hexdigest() == fetched["sha256"]

    again = honed("fetch", name, "-o", output)
    assert again.stdout == f"{output} is version 2 of {name} already\n"


def test_a_fetched_version_answers_as_the_registered_model(
    honed: Callable[..., Any], add_model: Callable[..., str], tmp_path: Path
) -> None:
    output = tmp_path / "model.onnx"
    assert honed("fetch", add_model(), "-o", output, "--version", 1).returncode == 0
    images, _ = digits.kept_back()
    base = digits.predicted(digits.folder() / "base.onnx", image=images)
    assert (digits.predicted(output, image=images) == base).all()


def test_versions_are_listed(honed: Callable[..., Any], add_model: Callable[..., str]) -> None:
    name = add_model()
    assert "latest" in honed("versions", "list", name).stdout
    (version,) = json.loads(honed("versions", "list", name, "--json").stdout)
    assert version["version"] == 1


def test_a_version_that_does_not_exist_leaves_no_file(
    honed: Callable[..., Any], add_model: Callable[..., str], tmp_path: Path
) -> None:
    done = honed("fetch", add_model(), "-o", tmp_path / "model.onnx", "--version", 9)
    assert done.returncode == 1
    assert list(tmp_path.glob("*.onnx*")) == []


def test_a_body_that_is_not_the_version_is_not_kept(
    client: Client, add_model: Callable[..., str], tmp_path: Path
) -> None:
    version = client.get(model_path(add_model(), "latest"))
    with pytest.raises(Failure, match="nothing was written"):
        fetch.download(client, {**version, "sha256": "0" * 64}, tmp_path / "model.onnx")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_does_not_exist_is_said(
    honed: Callable[..., Any], add_model: Callable[..., str], tmp_path: Path
) -> None:
    done = honed("fetch", add_model(), "-o", tmp_path / "none" / "model.onnx")
    assert done.returncode == 1
    assert "No such file or directory" in done.stderr
