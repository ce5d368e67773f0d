"""examples/messages: twenty sentences a topic teach a frozen encoder's head to file others."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from support import DEADLINE_S, Served


def test_messages_are_filed_after_twenty_examples_a_topic(
    root: Path, serve: Callable[..., Served]
) -> None:
    served = serve()
    told = subprocess.run(
        [sys.executable, root / "examples" / "messages" / "file.py"],
        env={**os.environ, "HONED_URL": served.url, "HONED_TOKEN": served.token},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )

    assert told.returncode == 0, told.stdout + told.stderr
    before, after = map(int, re.findall(r"(\d+)% (?:before|after)", told.stdout))
    assert before <= 30, told.stdout
    assert after >= 50, told.stdout  # 64 when it was written
    model = served.http.get("/v1/models/messages").json()
    assert model["parameters"]["trainable"] == 6 * 64 + 6
    assert model["samples"]["train"] + model["samples"]["validation"] == 120
    (job,) = served.http.get("/v1/jobs").json()["items"]
    assert job["hyperparameters"]["head"] == {"kind": "prototype"}
    assert served.http.get("/v1/models/messages/latest").json()["version"] == 2
