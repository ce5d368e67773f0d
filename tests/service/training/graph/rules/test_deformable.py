"""The rule of DeformConv, by central differences. ONNX Runtime 1.22 has no kernel, 1.32 has."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gradients import check, one_node

from service.training.engines.runtime import onnxruntime

IS_RUN = tuple(map(int, onnxruntime.__version__.split(".")[:2])) >= (1, 32)
CASES: list[tuple[dict[str, Any], int, int, tuple[int, ...], tuple[int, ...]]] = [
    ({}, 1, 1, (4, 5), (2, 4)),
    ({"pads": [1, 0, 2, 1], "strides": [2, 1], "dilations": [1, 2]}, 1, 2, (4, 5), (3, 4)),
    ({"pads": [1, 1, 1, 1]}, 2, 1, (3, 3), (4, 4)),
    ({"pads": [1, 1, 1, 1]}, 2, 4, (3, 3), (4, 4)),
]


@pytest.mark.parametrize("is_masked", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_windows_that_offsets_move(case, is_masked):
    attributes, groups, parts, sizes, counts = case
    chance = np.random.default_rng(0)
    kernel = (3, 2) if sizes == (4, 5) else (2, 2)
    taps = int(np.prod(kernel))
    inputs = {
        "x0": chance.normal(size=(2, 4, *sizes)),
        "x1": chance.normal(size=(2, 4 // groups, *kernel)),
        "x2": chance.uniform(-1.6, 1.6, (2, parts * taps * 2, *counts)),
        "x3": chance.normal(size=2),
        "x4": chance.normal(size=(2, parts * taps, *counts)),
    }
    if not is_masked:
        del inputs["x3"], inputs["x4"]
    model = one_node(
        *("DeformConv", list(inputs.values())),
        **{"opset": 19, "group": groups, "offset_group": parts, **attributes},
    )
    check(model, inputs, engine=IS_RUN)
