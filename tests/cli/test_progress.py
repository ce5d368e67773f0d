from __future__ import annotations

import os
import subprocess
import sys

import pytest

CODE = (
    "from cli.progress import bar\n"
    "with bar(4, 'Moving') as advance:\n"
    "    [advance(1) for _ in range(4)]\n"
)


def test_nothing_is_drawn_where_nobody_looks() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, check=True)
    assert done.stdout == done.stderr == b""


@pytest.mark.skipif(sys.platform == "win32", reason="pseudo terminals are POSIX")
def test_a_terminal_sees_the_bar_reach_its_end() -> None:
    import pty

    ours, theirs = pty.openpty()
    try:
        done = subprocess.run(
            [sys.executable, "-c", CODE], stdout=subprocess.PIPE, stderr=theirs, check=True
        )
        drawn = os.read(ours, 65536).decode()
    finally:
        os.close(ours)
        os.close(theirs)
    assert "Moving" in drawn
    assert "100%" in drawn
    assert done.stdout == b""
