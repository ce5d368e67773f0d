from __future__ import annotations

import re
from collections.abc import Callable


def test_the_example_trains_three_times_and_tells_how_long_it_took(run: Callable[..., str]) -> None:
    done = run("frozen_backbone/compare.py", "--samples", "60", "--epochs", "1")
    assert "cut at features: " in done
    for what in ("whole graph, bare loop", "first job", "second job"):
        assert re.search(rf"{what}: +[0-9.]+ s", done), done
    assert re.search(r"validation accuracy: +0\.[0-9]+|1\.0+", done)
