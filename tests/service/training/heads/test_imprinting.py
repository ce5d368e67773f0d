"""The row of a new class, set from its samples before the first step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from service.training.engines.manifest import ClassHead
from service.training.heads.imprinting import imprint

HEAD = ClassHead("w", 1, "b", "x", -1, classes=(0, 1, 7), fresh=(7,))


def rows() -> dict[str, Any]:
    weights = np.array([[3, -3, 0], [0, 0, 0]], np.float32)
    return {"w": weights, "b": np.array([0.5, 1.5, 1.0], np.float32)}


def test_the_boundary_lies_half_way_between_the_class_and_the_others() -> None:
    tensors, others = rows(), np.array([5, 5], np.float32)
    own = np.array([5, 9], np.float32)

    imprint(tensors, HEAD, 7, lambda row: (own, others) if row == 2 else (others, own), fresh=(7,))

    weight, bias = tensors["w"], tensors["b"]
    lead = [
        float(x @ (weight[:, 2] - weight[:, :2].mean(axis=1)) + bias[2] - 1) for x in (own, others)
    ]
    assert weight[:, 2].tolist() == pytest.approx([0, 3])  # as far from the mean as the others
    assert lead == pytest.approx([6, -6])
    assert weight[:, :2].tolist() == rows()["w"][:, :2].tolist()


def test_a_class_that_does_not_differ_stays_neutral() -> None:
    tensors, same = rows(), np.ones(2, np.float32)

    imprint(tensors, HEAD, 7, lambda _: (same, same), fresh=(7,))

    assert tensors["w"].tolist() == rows()["w"].tolist()
