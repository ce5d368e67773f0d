from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from support import DEADLINE_S


def test_the_example_trains_three_times_and_tells_how_long_it_took(root: Path) -> None:
    script = root / "examples" / "frozen_backbone" / "compare.py"
    done = subprocess.run(
        [sys.executable, script, "--samples", "60", "--epochs", "1"],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "cut at features: " in done.stdout
    for what in ("whole graph, bare loop", "first job", "second job"):
        assert re.search(rf"{what}: +[0-9.]+ s", done.stdout), done.stdout
    assert re.search(r"validation accuracy: +0\.[0-9]+|1\.0+", done.stdout)
