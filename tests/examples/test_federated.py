"""examples/federated: eight devices, real SuperLink and SuperNodes, with trouble on the way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
POINT = 0.01
DEADLINE_S = 7200


def test_eight_devices_learn_what_one_place_with_all_pictures_learns(tmp_path: Path) -> None:
    environment = os.environ.get("HONE_FLOWER")
    if not environment:
        pytest.skip("needs Flower, 300 MB: `make test-flower` installs it and runs this")
    figures = tmp_path / "figures.json"
    command = [sys.executable, ROOT / "examples" / "federated" / "run.py"]
    options = ["--environment", environment, "--json", figures]
    running = subprocess.Popen([*map(str, command), *map(str, options)])
    try:
        assert running.wait(DEADLINE_S) == 0
    finally:
        running.terminate()  # it stops its daemons and nodes
        running.wait()
    report = json.loads(figures.read_text())
    accuracy, devices, facts = (report[name] for name in ("accuracy", "devices", "facts"))
    together = accuracy["fedavg"]
    assert together >= accuracy["all pictures in one place"] - POINT
    assert together >= max(device["alone, all cameras"] for device in devices)
    for device in devices:
        assert device["together, personalized, own camera"] >= device["alone, own camera"]
    assert facts["one unplugged, one killed: the run"] == "finished:completed"
    assert accuracy["fedmedian, one lies"] >= accuracy["fedmedian"] - POINT
    assert accuracy["fedavg, one lies"] >= together - POINT
    assert 0 < facts["fedavg with noise: epsilon"] <= 8
