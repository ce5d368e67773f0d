from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

from own_losses import own_loss, renamed, squared
from training_api import require_training_api

from cli.demo import digits

BASE = digits.folder() / "base.onnx"


def test_a_model_is_added_shown_listed_and_removed(honed: Callable[..., Any]) -> None:
    added = honed(
        *("models", "add", BASE, "--name", "whole-way", "--loss", "cross_entropy"),
        *("--trainable", "head.*", "--batch-size", 8, "--json"),
    )
    assert added.returncode == 0, added.stderr
    model = json.loads(added.stdout)
    assert model["parameters"]["names"] == ["head.weight", "head.bias"]
    assert model["hyperparameters"]["batch_size"] == 8

    shown = honed("models", "show", "whole-way").stdout
    assert "image: float32 [1, 8, 8]" in shown
    assert "5,130 parameters train, 4,800 are frozen" in shown
    assert "whole-way" in honed("models", "list").stdout
    assert "whole-way" in [
        each["name"] for each in json.loads(honed("models", "list", "--json").stdout)
    ]

    assert honed("models", "remove", "whole-way", "--yes").returncode == 0
    gone = honed("models", "show", "whole-way")
    assert gone.returncode == 1
    assert "whole-way" in gone.stderr


def test_the_name_of_the_file_is_the_default_name(
    honed: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "named-by-file.onnx").write_bytes(BASE.read_bytes())
    added = honed("models", "add", tmp_path / "named-by-file.onnx", "--loss", "cross_entropy")
    assert added.stdout == "named-by-file is ready to train: 9,930 parameters train, 0 are frozen\n"


def test_a_model_is_added_with_a_loss_of_its_own(honed: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "own.onnx"
    path.write_bytes(own_loss(*squared()).SerializeToString())
    added = honed("models", "add", path, "--loss-output", "loss")
    assert added.returncode == 0, added.stderr
    shown = honed("models", "show", "own").stdout
    assert "its output loss" in shown
    assert "t: float32 [3]" in shown
    for options in ((), ("--loss", "mse", "--loss-output", "loss")):
        refused = honed("models", "add", path, "--name", "no", *options)
        assert refused.returncode == 2
        assert "either with --loss or with --loss-output" in refused.stderr


def test_the_options_that_a_check_suggests_can_be_pasted(
    honed: Callable[..., Any], tmp_path: Path
) -> None:
    path = tmp_path / "own.onnx"
    path.write_bytes(renamed(own_loss(*squared()), {"loss": "the loss", "y": "y (final)"}))

    checked = honed("models", "check", path)

    (line,) = (line for line in checked.stdout.splitlines() if line.startswith("suggested"))
    options = shlex.split(line.removeprefix("suggested").split(": ")[0])
    assert options == ["--loss-output", "the loss", "--output", "y (final)"]


def test_every_fault_of_a_refused_model_is_told(honed: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "broken.onnx").write_bytes(BASE.read_bytes()[:1000])
    refused = honed("models", "add", tmp_path / "broken.onnx", "--loss", "cross_entropy")
    assert refused.returncode == 1
    assert "error: " in refused.stderr
    assert "Traceback" not in refused.stderr
    assert refused.stdout == ""


def test_a_folder_of_artifacts_is_added(honed: Callable[..., Any], tmp_path: Path) -> None:
    require_training_api()
    made = honed("artifacts", BASE, "-o", tmp_path / "made", "--loss", "cross_entropy")
    assert made.returncode == 0, made.stderr
    added = honed(
        *("models", "add", tmp_path / "made", "--name", "from-artifacts"),
        *("--loss", "cross_entropy", "--output", "logits"),
    )
    assert added.returncode == 0, added.stderr
    assert "from-artifacts is ready to train: 9,930 parameters train" in added.stdout


def test_a_folder_that_lacks_artifacts_names_them(
    honed: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "checkpoint").touch()
    refused = honed("models", "add", tmp_path, "--name", "lacking", "--loss", "cross_entropy")
    assert refused.returncode == 1
    assert "holds no training_model.onnx, eval_model.onnx, optimizer_model.onnx;" in refused.stderr


def test_who_may_change_a_model_sees_what_it_changed(
    honed: Callable[..., Any], add_model: Callable[..., str]
) -> None:
    name = add_model()
    secret = honed("tokens", "create", f"of-{name}", "--scope", "models:admin").stdout.strip()
    done = honed("gate", "set", name, "margin=0.07", HONED_TOKEN=secret)
    assert done.returncode == 0, done.stderr
    assert "0.07" in done.stdout
