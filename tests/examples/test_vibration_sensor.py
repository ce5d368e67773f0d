from __future__ import annotations

import re
from collections.abc import Callable

from support import Served


def test_a_sensor_learns_rare_faults_from_recordings_without_a_flag(
    serve: Callable[..., Served], run: Callable[..., str]
) -> None:
    # As in `honed demo`: beside other tests a nice job gets little.
    served = serve(training_nice=0)
    told = run("vibration_sensor/watch.py", served=served)
    before, after = map(float, re.findall(r"(0\.\d+|1\.00) (?:before|after)", told))
    assert after >= 0.75, told
    assert after > before + 0.3
    (job,) = served.http.get("/v1/jobs").json()["items"]
    assert job["choices"]["class_weights"]
    assert "epochs" in job["choices"]
