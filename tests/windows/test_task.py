"""The task that starts the helper: what can be known of it without Windows."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

TASK = Path(__file__).parents[2] / "windows" / "watch-input.xml"
NAMES = {"t": "http://schemas.microsoft.com/windows/2004/02/mit/task"}


@pytest.fixture
def task() -> ET.Element:
    return ET.parse(TASK).getroot()


def text(task: ET.Element, path: str) -> str:
    found = task.find(path, NAMES)
    assert found is not None, path
    return found.text or ""


def test_it_runs_for_every_user_without_their_rights_and_without_an_end(task: ET.Element) -> None:
    assert task.find("t:Triggers/t:LogonTrigger", NAMES) is not None
    assert task.find(".//t:UserId", NAMES) is None
    assert text(task, ".//t:GroupId") == "S-1-5-32-545"
    assert text(task, ".//t:RunLevel") == "LeastPrivilege"
    assert text(task, ".//t:MultipleInstancesPolicy") == "Parallel"
    assert text(task, ".//t:ExecutionTimeLimit") == "PT0S"
    for setting in ("DisallowStartIfOnBatteries", "StopIfGoingOnBatteries"):
        assert text(task, f".//t:{setting}") == "false"


def test_its_arguments_are_those_of_the_helper(task: ET.Element) -> None:
    assert text(task, ".//t:Command").endswith('pythonw.exe"')
    arguments = text(task, ".//t:Arguments").split()
    done = subprocess.run(
        [sys.executable, *arguments, "--help"], capture_output=True, text=True, check=True
    )
    assert "watch-input" in done.stdout


def test_schtasks_can_read_its_encoding() -> None:
    """A file that says nothing of its encoding, and is ASCII, is right in every one."""
    content = TASK.read_bytes()
    assert content.isascii()
    assert b"encoding=" not in content
