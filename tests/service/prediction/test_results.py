"""Logits become probabilities."""

from __future__ import annotations

import numpy as np
import pytest

from service.training.tasks.binary import sigmoid
from service.training.tasks.cross_entropy import softmax


def test_softmax_does_not_overflow() -> None:
    logits = np.array([[1000, 0], [0, 1000], [-1000, -1000]], np.float32)

    np.testing.assert_allclose(softmax(logits), [[1, 0], [0, 1], [0.5, 0.5]])


def test_softmax_is_over_the_axis_behind_the_batch() -> None:
    logits = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)

    np.testing.assert_allclose(softmax(logits).sum(axis=1), np.ones((2, 4)))


def test_sigmoid_does_not_overflow() -> None:
    assert sigmoid(np.array([-1e4, 0, 1e4])) == pytest.approx([0, 0.5, 1])
