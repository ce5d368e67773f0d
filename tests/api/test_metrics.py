"""What Prometheus scrapes."""

from __future__ import annotations

import re

from support import Served, blobs, mlp

from api.routes.metrics import _gauge

LINE = re.compile(r'[a-z_]+(\{([a-z_]+="([^"\\]|\\.)*",?)+\})? -?[0-9.e+]+')


def test_metrics_tell_models_samples_jobs_and_the_verdict(served: Served) -> None:
    served.register("scraped", mlp(3, 4, 2))
    served.upload("scraped", split="train", **blobs(20, 3, 2))
    served.train("scraped", epochs=1)

    answer = served.http.get("/metrics")

    lines = answer.text.splitlines()
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert all(line.startswith("# ") or LINE.fullmatch(line) for line in lines)
    assert 'honed_samples{model="scraped",split="train"} 20' in lines
    assert 'honed_latest_version{model="scraped"} 1' in lines
    assert any(re.fullmatch(r'honed_jobs\{state="succeeded"\} [1-9]\d*', line) for line in lines)
    assert "# TYPE honed_eligible gauge" in lines


def test_a_number_keeps_all_its_digits() -> None:
    assert _gauge("n", "N.", [({}, 1_234_567), ({}, 0.1)]).endswith("\nn 1234567\nn 0.1\n")
