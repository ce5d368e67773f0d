"""COCO's run lengths, beside what pycocotools 2.0.11 makes of the same masks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from service.preprocess.kind import Unreadable
from service.preprocess.masks.run_lengths import decode, encode


def drawn() -> np.ndarray[Any, Any]:
    """Two rectangles and a disc, (60, 80)."""
    mask = np.zeros((60, 80), bool)
    mask[10:50, 5:30] = mask[20:30, 60:] = True
    y, x = np.mgrid[:60, :80]
    mask[(y - 30) ** 2 + (x - 45) ** 2 < 144] = True
    return mask


PYCOCOTOOLS = (
    "f9X1d000000000000000000000000000000000000000000000000P8QOmH4M2N2N2N2O0O2O0000000000000001N101"
    "N2N2N2N3L`51aJ0000000000000000000000000000000000000\\O"
)
"""pycocotools.mask.encode(np.asfortranarray(drawn().astype("uint8")))["counts"]"""


def test_the_text_is_that_of_pycocotools() -> None:
    assert encode(drawn()) == {"size": [60, 80], "counts": PYCOCOTOOLS}
    assert (decode({"size": [60, 80], "counts": PYCOCOTOOLS}, (60, 80)) == drawn()).all()


@pytest.mark.parametrize(
    ("mask", "counts"),
    [
        (np.ones((1, 1), bool), "01"),
        (np.zeros((1, 1), bool), "1"),
        (np.ones((7, 5), bool), "0S1"),
        (np.zeros((7, 5), bool), "S1"),
        (np.eye(4, dtype=bool), "01400000"),
    ],
    ids=["a pixel", "none", "all", "nothing", "a diagonal"],
)
def test_small_masks_are_those_of_pycocotools(mask: Any, counts: str) -> None:
    assert encode(mask)["counts"] == counts
    assert (decode({"size": [*mask.shape], "counts": counts}, mask.shape) == mask).all()


@pytest.mark.parametrize("seed", range(20))
def test_every_mask_comes_back(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mask = rng.random(rng.integers(1, 40, 2)) < rng.random()
    assert (decode(encode(mask), mask.shape) == mask).all()


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"counts": "1"}, "of size None, but the photo is [2, 3]"),
        ({"size": [3, 2], "counts": "6"}, "of size [3, 2], but"),
        ({"size": [2, 3]}, "a list of integers from 0"),
        ({"size": [2, 3], "counts": [True, 5]}, "a list of integers from 0"),
        ({"size": [2, 3], "counts": [7, -1]}, "a list of integers from 0"),
        ({"size": [2, 3], "counts": [2, 2]}, "make 4 pixels, the photo has 6"),
        ({"size": [2, 3], "counts": "6\x7f"}, "hold '\\x7f'"),
        ({"size": [2, 3], "counts": "P"}, "in the middle of a number"),
        ({"size": [2, 3], "counts": "P" * 99}, "hold 'P'"),
    ],
    ids=[
        "no size",
        "turned",
        "no counts",
        "a boolean",
        "negative",
        "sum",
        "alien",
        "cut",
        "endless",
    ],
)
def test_what_is_wrong_is_said(given: dict[str, Any], says: str) -> None:
    with pytest.raises(Unreadable) as refused:
        decode(given, (2, 3))
    assert says in str(refused.value)
