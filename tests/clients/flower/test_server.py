"""What a federation's server makes of its devices' replies, without a SuperLink."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest


def in_memory(flower: Path, *what: str) -> Any:
    """What in_memory.py says of the server's side."""
    program = [str(flower / "bin" / "python"), str(Path(__file__).with_name("in_memory.py"))]
    ended = subprocess.run([*program, *what], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout.splitlines()[-1])


@pytest.mark.parametrize(
    "leaving", [{1: 0}, {2: 1}, {3: 2}, {4: 3}, {1: 0, 2: 1, 3: 2}, {1: 1, 2: 2, 3: 3}]
)
def test_devices_may_leave_at_any_stage_of_secure_aggregation(
    flower: Path, leaving: dict[int, int]
) -> None:
    found = in_memory(flower, "sums", json.dumps(leaving))
    there = [node for node in range(1, 6) if leaving.get(node, 4) > 2]
    mean = sum(10 * node * node / 10 for node in there) / sum(10 * node for node in there)
    np.testing.assert_allclose(found["b"], [20.25 + mean], atol=1e-3)
    np.testing.assert_allclose(found["a"], np.add([[1, -2], [3, 0.5]], mean), atol=1e-3)


def test_krum_tells_small_updates_of_large_parameters_apart_and_needs_enough(flower: Path) -> None:
    found = in_memory(flower, "krum")
    assert found["mean"] == pytest.approx(
        5e-4, rel=0.1
    )  # not the malicious one, three times as far
    assert found["of four"] is None


def test_a_reply_of_any_other_form_is_left_out(flower: Path) -> None:
    found = in_memory(flower, "replies")
    assert found["arrays"] == {"a": [[2, -1], [4, 1.5]], "b": [21.25]}
    assert found["figures"] == {"loss": 1.0}
    assert found["dtypes"] == [["float32"] * 2] * 5
