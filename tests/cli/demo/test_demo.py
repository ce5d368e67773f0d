from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from support import DEADLINE_S

from cli.client import Client

posix = pytest.mark.skipif(os.name != "posix", reason="signals are POSIX")


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start `honed demo` with its temporary files below tmp_path."""
    started: list[subprocess.Popen[str]] = []

    def run(*arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-u", "-m", "honed", "demo", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            env={**os.environ, "TMPDIR": str(tmp_path), "TEMP": str(tmp_path), "PYTHONUTF8": "1"},
        )
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def _processes_below(folder: Path) -> list[list[str]]:
    """Command lines that name the folder."""
    found = [process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"])]
    return [line for line in found if any(str(folder) in word for word in line)]


def _shares(text: str) -> dict[int, float]:
    found = re.findall(r"version (\d+) .* (\d+\.\d)%", text)
    return {int(version): float(percent) for version, percent in found}


def test_the_accuracy_rises_and_a_kept_daemon_answers_with_its_token(
    demo: Callable[..., subprocess.Popen[str]],
) -> None:
    """What one that is not kept leaves behind is seen in tests/installation: nothing.

    A person waits for its job, which runs on battery power too, and at the usual priority.
    """
    text, _ = demo("--keep").communicate(timeout=DEADLINE_S)
    shares = _shares(text)
    assert 20 < shares[1] < 60
    assert shares[2] > 90
    url = re.search(r"(http://\S+)/docs", text)
    token = re.search(r"Token +(\S+)", text)
    pid = re.search(r"process (\d+)", text)
    assert url is not None
    assert token is not None
    assert pid is not None
    kept = psutil.Process(int(pid[1]))
    try:
        client = Client(url=url[1], token=Path(token[1]).read_text(encoding="ascii").strip())
        assert client.get("/v1/models/digits")["latest_version"] == 2
        assert client.get("/v1/jobs/1")["ignore_policy"] is True
        assert client.get("/v1/policy")["nice"] == 0
        client.close()
    finally:
        kept.terminate()
        kept.wait(30)


@posix
@pytest.mark.parametrize(
    ("number", "moment"),
    [
        (signal.SIGINT, "Daemon"),
        (signal.SIGTERM, "Daemon"),
        (signal.SIGINT, "Training"),
    ],
)
def test_an_interrupted_demo_leaves_nothing_behind(
    demo: Callable[..., subprocess.Popen[str]], tmp_path: Path, number: int, moment: str
) -> None:
    process = demo()
    assert process.stdout is not None
    seen = ""
    while moment not in seen:
        seen += process.stdout.read(1)
    process.send_signal(number)
    rest, _ = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == (1 if number == signal.SIGINT else -number), seen + rest
    assert "Traceback" not in rest
    assert _processes_below(tmp_path) == []
    assert list(tmp_path.iterdir()) == []
