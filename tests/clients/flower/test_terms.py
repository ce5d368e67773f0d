"""Settings of a run: what is wrong is told before the first round, all of it at once."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from honed_flower.terms import read_terms

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

APP = Path(__file__).parents[3] / "clients" / "flower" / "pyproject.toml"


def config(**changes: Any) -> dict[str, Any]:
    """The defaults, with files named, and some settings changed."""
    defaults = tomllib.loads(APP.read_text("utf-8"))["tool"]["flwr"]["app"]["config"]
    named = {"model": "m.onnx", "output": "out"}
    return {**defaults, **named, **{key.replace("_", "-"): each for key, each in changes.items()}}


def test_the_defaults_of_the_app_are_settings() -> None:
    sent = read_terms(config()).sent()
    assert sent == {"deadline-seconds": 600.0, "compression": "none"}


def test_a_number_of_steps_alone_is_sent_without_epochs_that_would_end_it() -> None:
    assert "epochs" not in read_terms(config(max_steps=500)).sent()


def test_a_whole_number_stands_for_a_decimal_one() -> None:
    assert read_terms(config(clip_norm=1)).clip_norm == 1.0


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"rounds": 0}, "rounds is 0: Input should be greater than or equal to 1"),
        ({"rounds": "ten"}, "rounds is 'ten': Input should be a valid integer"),
        ({"strategy": "fedsgd"}, "should be 'fedavg', 'fedprox', 'fedadam', 'fedmedian' or 'krum'"),
        ({"model": ""}, "model is missing"),
        ({"noise_multiplier": 1.0}, "give it too"),
        ({"deadline_seconds": 0.0, "on_deadline": "none"}, "on-deadline is about deadline-seconds"),
        ({"compression": "int8", "share": 0.5}, "only top_k keeps a share"),
        ({"speed": 3}, "speed is 3: Extra inputs are not permitted"),
        ({"malicious_nodes": 1}, "only krum takes malicious-nodes"),
        ({"server_learning_rate": 0.1}, "only fedadam takes server-learning-rate"),
        ({"trainable": "head.*", "parameters": "p"}, "trainable and parameters both say"),
        ({"strategy": "krum"}, "krum needs at least 3 nodes; nodes is 2"),
        (
            {"strategy": "krum", "malicious_nodes": 2, "nodes": 6},
            "krum needs at least 7 nodes, of which 2 may be malicious; nodes is 6",
        ),
        ({"fraction": 10.0}, "fraction is 10.0: Input should be less than or equal to 1"),
        ({"round_timeout": 60.0}, "deadline-seconds must not be above round-timeout"),
        (
            {"learning_rate": -1.0, "share": -1.0},
            "learning-rate is -1.0: .* than or equal to 0; share",
        ),
    ],
)
def test_a_wrong_setting_is_named(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        read_terms(config(**changes))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"strategy": "fedmedian"}, "fedmedian needs each update"),
        ({"strategy": "krum"}, "krum needs each update"),
        ({"compression": "int8"}, "compressed updates have not"),
        ({"server_clip_norm": 1.0}, "hides the updates that server-clip-norm would clip"),
        ({"nodes": 2}, "needs at least 3 nodes"),
    ],
)
def test_secure_aggregation_refuses_what_it_cannot_do(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        read_terms(config(**{"secure_aggregation": True, "nodes": 4, **changes}))
    assert read_terms(config(secure_aggregation=True, nodes=4, strategy="fedadam"))
