from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from support import DEADLINE_S


def test_a_device_gets_a_better_network_overnight_and_refuses_a_broken_one(root: Path) -> None:
    done = subprocess.run(
        [sys.executable, root / "examples" / "upgrade" / "upgrade.py"],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "by day nothing is asked: it is" in done.stdout
    assert "a broken one: not promoted" in done.stdout
    assert "a foreign one: signature_refused" in done.stdout
    alone, before, after = map(float, re.findall(r"(\d+\.\d)%", done.stdout)[-3:])
    assert after >= before > alone, done.stdout
