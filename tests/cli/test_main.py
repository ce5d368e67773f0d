from __future__ import annotations

import subprocess
import sys

import pytest
from click.testing import CliRunner

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


@pytest.mark.usefixtures("clean_environment")
def test_a_daemon_that_is_not_there_is_said_with_the_remedy() -> None:
    result = CliRunner().invoke(honed, ["--url", "http://127.0.0.1:1", "status"])
    assert result.exit_code == 1
    assert "no daemon answers at http://127.0.0.1:1" in result.stderr
    assert "honed serve" in result.stderr
