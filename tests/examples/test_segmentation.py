from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from support import DEADLINE_S, Served


def test_sixty_masks_teach_a_network_to_see_with_another_camera(
    root: Path, tmp_path: Path, serve: Callable[..., Served]
) -> None:
    # As in `honed demo`: beside other tests a nice job gets little.
    served = serve(training_nice=0)
    told = subprocess.run(
        [sys.executable, root / "examples/segmentation/learn.py", tmp_path / "seen.png"],
        env={**os.environ, "HONED_URL": served.url, "HONED_TOKEN": served.token},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )

    assert told.returncode == 0, told.stdout + told.stderr
    before, after = map(float, re.findall(r"(0\.\d+) (?:before|after)", told.stdout))
    assert before <= 0.6, told.stdout
    assert after >= 0.85, told.stdout
    assert (tmp_path / "seen.png").stat().st_size > 1000
    versions = served.http.get("/v1/models/gardens/versions").json()["items"]
    assert [version["promoted"] for version in versions] == [True, True, True]
