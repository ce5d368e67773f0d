"""examples/keyboard: a model learns a second author's words, and keeps those of the first."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from support import DEADLINE_S, Served


def test_a_keyboard_learns_a_new_author_and_keeps_the_old_one(
    root: Path, serve: Callable[..., Served]
) -> None:
    # As in `honed demo`: beside other tests a nice job gets little.
    served = serve(training_nice=0)
    told = subprocess.run(
        [sys.executable, root / "examples" / "keyboard" / "learn.py"],
        env={**os.environ, "HONED_URL": served.url, "HONED_TOKEN": served.token},
        capture_output=True,
        text=True,
        timeout=4 * DEADLINE_S,
        check=False,
    )

    assert told.returncode == 0, told.stdout + told.stderr
    before, after = (
        [float(number) for number in re.findall(r"\d+\.\d", line)]
        for line in told.stdout.splitlines()
        if line.startswith(("before", "after"))
    )
    old, new, near, saved = range(4)
    assert after[new] <= 0.75 * before[new], told.stdout
    assert after[near] >= before[near] + 6, told.stdout  # 8.9 when it was written
    assert after[old] <= 1.1 * before[old], told.stdout
    assert after[saved] > before[saved], told.stdout
    assert "promoted: validation perplexity" in told.stdout
