from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from cli.demo.daemon import DaemonProcess
from cli.main import COMMANDS, honed

HEAVY = ("fastapi", "httpx", "numpy", "onnx", "onnxruntime", "psutil", "pydantic", "uvicorn")


def test_help_names_every_command() -> None:
    result = CliRunner().invoke(honed, ["--help"])
    assert result.exit_code == 0
    for name in COMMANDS:
        assert f"  {name} " in result.stdout


def test_the_commands_load_nothing_heavy_before_they_run() -> None:
    code = f"import sys, cli.main; print([m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_wrong_usage_ends_with_exit_code_2() -> None:
    result = CliRunner().invoke(honed, ["train"])
    assert result.exit_code == 2
    assert "Missing argument 'MODEL'" in result.stderr


@pytest.mark.usefixtures("clean_environment")
def test_a_wrong_setting_is_named_without_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HONED_PORT", "seventy")
    result = CliRunner().invoke(honed, ["status"])
    assert result.exit_code == 1
    assert "HONED_PORT" in result.stderr
    assert "Traceback" not in result.output


@pytest.mark.skipif(sys.platform != "linux", reason="needs /dev/full")
def test_output_that_cannot_be_written_is_said_in_a_line() -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "honed", "--help"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr == "error: cannot write the output: No space left on device\n"


def test_characters_that_the_locale_lacks_are_escaped(tmp_path: Path) -> None:
    (tmp_path / "日本.onnx").write_bytes(b"model")
    words = ("--key", "vendor.key", "--make-key", "--version", "1", "--expires", "2099-01-01")
    done = subprocess.run(
        [sys.executable, "-m", "honed", "sign", "日本.onnx", *words],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONIOENCODING": "latin-1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "\\u65e5\\u672c.onnx" in done.stdout


@pytest.mark.usefixtures("clean_environment")
def test_an_argument_that_is_no_text_is_told(daemon: DaemonProcess) -> None:
    words = ["--url", daemon.client.url, "samples", "list", "pets", "--label", "\udcff"]
    result = CliRunner().invoke(honed, words)
    assert (result.exit_code, "is not UTF-8" in result.stderr) == (1, True)


@pytest.mark.usefixtures("clean_environment")
def test_a_daemon_that_is_not_there_is_said_with_the_remedy() -> None:
    result = CliRunner().invoke(honed, ["--url", "http://127.0.0.1:1", "status"])
    assert result.exit_code == 1
    assert "no daemon answers at http://127.0.0.1:1" in result.stderr
    assert "honed serve" in result.stderr


@pytest.mark.parametrize(
    ("mistyped", "told"),
    [
        (["statsu"], "did you mean status?"),
        (["models", "lst"], "did you mean list?"),
        (["triggers", "delete"], "the commands are add, disable, enable, list, remove, show"),
    ],
)
def test_a_mistyped_command_is_told_what_was_meant(mistyped: list[str], told: str) -> None:
    result = CliRunner().invoke(honed, mistyped)
    assert result.exit_code == 2
    assert told in result.stderr


def test_help_shows_defaults() -> None:
    result = CliRunner().invoke(honed, ["samples", "add", "--help"])
    assert "[default: refuse]" in result.stdout


@pytest.mark.parametrize("command", [["train"], ["triggers", "add"]])
def test_help_shows_the_default_of_every_hyperparameter(command: list[str]) -> None:
    text = " ".join(CliRunner().invoke(honed, [*command, "--help"]).stdout.split())
    for told in ("Samples in a batch. Default: 32", "Default: 0.001", "Default: constant"):
        assert f"{told} unless the job chooses." in text
    assert "Steps in which the learning rate rises to its peak. Default: 0." in text


def test_help_tells_the_whole_sentence_of_each_command() -> None:
    listed = CliRunner().invoke(honed, ["--help"]).stdout.partition("Commands:")[2]
    assert listed
    assert "..." not in listed


@pytest.mark.parametrize(
    ("command", "completed"),
    [
        ("models show {begun}", "{name}"),
        ("triggers list {begun}", "{name}"),
        ("versions show {name} l", "latest"),
        ("promote {name} ", "1"),
        ("aliases remove {name} lat", "latest"),
    ],
    ids=["show", "list", "alias", "number", "remove"],
)
def test_the_shell_completes_names(
    add_model: Callable[..., str], variables: Any, command: str, completed: str
) -> None:
    name = add_model()
    line = f"honed {command.format(name=name, begun=name[:6])}"
    words = {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)}
    asked = {**os.environ, **variables, **words, "_HONED_COMPLETE": "bash_complete"}
    program = [sys.executable, "-c", "from cli.main import main; main()"]
    done = subprocess.run(program, env=asked, capture_output=True, text=True, check=True)
    assert f"plain,{completed.format(name=name)}" in done.stdout.splitlines()


def test_the_shell_completes_nothing_where_no_daemon_is() -> None:
    words = {"COMP_WORDS": "honed models show a", "COMP_CWORD": "3"}
    asked = {**os.environ, **words, "HONED_URL": "http://127.0.0.1:1", "HONED_TOKEN": "none"}
    command = [sys.executable, "-c", "from cli.main import main; main()"]
    done = subprocess.run(
        command,
        env={**asked, "_HONED_COMPLETE": "bash_complete"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout + done.stderr).strip() == ""
