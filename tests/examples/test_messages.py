"""examples/messages: twenty sentences a topic teach a frozen encoder's head to file others."""

from __future__ import annotations

import re
from collections.abc import Callable

from support import Served


def test_messages_are_filed_after_twenty_examples_a_topic(
    serve: Callable[..., Served], run: Callable[..., str]
) -> None:
    served = serve()
    told = run("messages/file.py", served=served)
    before, after = map(int, re.findall(r"(\d+)% (?:before|after)", told))
    assert before <= 30, told
    assert after >= 50, told  # 64 when it was written
    model = served.http.get("/v1/models/messages").json()
    assert model["parameters"]["trainable"] == 6 * 64 + 6
    assert model["samples"]["train"] + model["samples"]["validation"] == 120
    (job,) = served.http.get("/v1/jobs").json()["items"]
    assert job["hyperparameters"]["head"] == {"kind": "prototype"}
    assert served.http.get("/v1/models/messages/latest").json()["version"] == 2
