from __future__ import annotations

import os
import re
import subprocess
import sys

import click
import pytest

from cli.progress import Lines, bar

CODE = (
    "from cli.progress import bar\n"
    "with bar(4, 'Moving') as advance:\n"
    "    [advance(1) for _ in range(4)]\n"
)


def test_a_pipe_gets_a_line_every_ten_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    times = iter((0.0, 4.0, 9.9, 10.0, 10.0, 15.0, 20.5, 20.5))
    advance = Lines(200, "Uploading", clock=lambda: next(times))
    for _ in range(5):
        advance(20)
    assert capsys.readouterr().err == "Uploading: 30%\nUploading: 50%\n"


def test_a_pipe_is_not_told_the_same_twice(capsys: pytest.CaptureFixture[str]) -> None:
    times = iter((0.0, 10.0, 10.0, 20.0, 20.0, 30.0, 30.0))
    advance = Lines(1000, "Training", clock=lambda: next(times))
    for amount in (0, 1, 19):
        advance(amount)
    assert capsys.readouterr().err == "Training: 0%\nTraining: 2%\n"


def test_where_nobody_sees_a_bar_lines_tell_of_it() -> None:
    with bar(4, "Moving") as advance:
        assert isinstance(advance, Lines)


def test_what_takes_no_time_says_nothing_in_a_pipe() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, check=True)
    assert done.stdout == done.stderr == b""


@pytest.mark.skipif(sys.platform == "win32", reason="pseudo terminals are POSIX")
@pytest.mark.parametrize("columns", [40, 80])
def test_a_terminal_sees_the_bar_reach_its_end_in_one_line(columns: int) -> None:
    import pty

    ours, theirs = pty.openpty()
    try:
        done = subprocess.run(
            [sys.executable, "-c", CODE],
            stdout=subprocess.PIPE,
            stderr=theirs,
            check=True,
            env={**os.environ, "COLUMNS": str(columns)},
        )
        drawn = os.read(ours, 65536).decode()
    finally:
        os.close(ours)
        os.close(theirs)
    assert "Moving" in drawn
    assert "100%" in drawn
    assert max(len(click.unstyle(line)) for line in re.split(r"[\r\n]", drawn)) <= columns
    assert done.stdout == b""
