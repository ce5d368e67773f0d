from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any


def test_models_and_their_samples_are_told(
    honed: Callable[..., Any], add_model: Callable[..., str]
) -> None:
    name = add_model(samples=20)
    (line,) = [line for line in honed("status").stdout.splitlines() if f" {name}: " in line]
    assert "version 1" in line
    assert "0 unlabelled" in line


def test_a_script_gets_the_daemons_own_words(honed: Callable[..., Any]) -> None:
    told = json.loads(honed("status", "--json").stdout)
    assert told["health"]["status"] == "ok"
    assert isinstance(told["models"], list)
    assert isinstance(told["jobs"], list)
