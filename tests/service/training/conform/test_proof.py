"""The proof of artifacts looks at slopes; what it refuses must be wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import helper

from service.training.engines.ort_training import proof
from service.training.protocol.messages.preparation import Prepared

ZERO, SIX = np.float32(0), np.float32(6)


def at_the_kink(graphs: Any) -> Any:
    """A fresh bias of 0 over features of which some are 0: MobileNet's ReLU6 sits on its kink."""
    weight = np.random.default_rng(3).standard_normal((6, 5)).astype(np.float32)
    weight[:, :3] = 0
    clip = helper.make_node("Clip", ["h", "zero", "six"], ["g"], name="relu6")
    bias = np.zeros(5, np.float32)
    return graphs.around(clip, w=weight, b=bias, zero=ZERO, six=SIX)


def test_a_model_whose_fresh_biases_lie_on_a_kink_is_taken(
    graphs: Any, accept: Callable[..., Prepared]
) -> None:
    assert accept(at_the_kink(graphs)).trainable_parameters == 6 * 5 + 5 + 5 * 3


def test_the_kink_is_what_would_have_been_refused(
    graphs: Any, refuse: Callable[..., dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proof, "SHAKE", 0.0)

    (detail,) = refuse(at_the_kink(graphs)).values()

    assert "is not that of the loss" in detail
