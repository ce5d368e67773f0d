from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from support import Served


def test_a_sensor_that_knows_a_pump_that_is_well_tells_its_faults(
    tmp_path: Path, serve: Callable[..., Served], run: Callable[..., str]
) -> None:
    # As in `honed demo`: beside other tests a nice job gets little.
    served = serve(training_nice=0)
    told = run("vibration_sensor/watch.py", tmp_path / "scores.png", served=served)
    found, alarms = map(float, re.findall(r"([0-9.]+)%", told))
    assert found >= 80, told
    assert alarms <= 5, told
    assert (tmp_path / "scores.png").stat().st_size > 1000
    metrics = served.http.get("/v1/models/pump/versions/2").json()["metrics"]
    assert metrics["auroc"] > 0.95
