from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from support import DEADLINE_S, Served


def test_a_sensor_learns_rare_faults_from_recordings_without_a_flag(
    root: Path, serve: Callable[..., Served]
) -> None:
    # As in `honed demo`: beside other tests a nice job gets little.
    served = serve(training_nice=0)
    told = subprocess.run(
        [sys.executable, root / "examples" / "vibration_sensor" / "watch.py"],
        env={**os.environ, "HONED_URL": served.url, "HONED_TOKEN": served.token},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )

    assert told.returncode == 0, told.stdout + told.stderr
    before, after = map(float, re.findall(r"(0\.\d+|1\.00) (?:before|after)", told.stdout))
    assert after >= 0.75, told.stdout
    assert after > before + 0.3
    (job,) = served.http.get("/v1/jobs").json()["items"]
    assert job["choices"]["class_weights"]
    assert "epochs" in job["choices"]
