"""COCO's run lengths: how often 0 and 1 alternate down the columns of a binary mask.

Source: `common/maskApi.c` of pycocotools, functions rleEncode, rleToString and rleFrString.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from service.preprocess.kind import Unreadable
from storage.arrays import NDArray

BITS, MORE, SIGN, FIRST = 5, 0x20, 0x10, 48
"""Of a character: its bits of a number, low ones first; whether another follows; in the last, the
sign; and what it begins at."""
MOST_BITS = 40
"""Of a number: no picture has as many pixels."""
Binary: TypeAlias = "NDArray[np.bool_]"


def encode(mask: Binary) -> dict[str, Any]:
    """`size`, [height, width], and `counts`, compressed. mask: (height, width)."""
    flat = np.concatenate([[False], mask.ravel(order="F"), [not mask[-1, -1]]])
    ends = np.flatnonzero(flat[1:] != flat[:-1])
    return {"size": [*mask.shape], "counts": _compressed(np.diff(ends, prepend=0).tolist())}


def decode(mask: Mapping[str, Any], size: tuple[int, int]) -> Binary:
    """The mask, (height, width) as in `size`, which it must have. Raises Unreadable."""
    if mask.get("size") != [*size]:
        shown = f"{mask.get('size')!r:.60}"
        raise Unreadable(f"run lengths of size {shown}, but the photo is {[*size]}, height first")
    counts = mask.get("counts")
    if isinstance(counts, str):
        counts = _expanded(counts)
    if not isinstance(counts, list) or any(type(count) is not int or count < 0 for count in counts):
        raise Unreadable("counts is COCO's text, or a list of integers from 0")
    if sum(counts) != size[0] * size[1]:
        detail = f"the counts make {sum(counts)} pixels, the photo has {size[0] * size[1]}"
        raise Unreadable(detail)
    values = np.arange(len(counts)) % 2 == 1
    return np.repeat(values, counts).reshape(size, order="F")


def _compressed(counts: Sequence[int]) -> str:
    """From the fourth on, each is told as the difference to the one two before."""
    text = bytearray()
    for place, count in enumerate(counts):
        left = count - counts[place - 2] if place > 2 else count
        while True:
            part, left = left & (MORE - 1), left >> BITS
            is_last = left == (-1 if part & SIGN else 0)
            text.append(FIRST + (part if is_last else part | MORE))
            if is_last:
                break
    return text.decode()


def _expanded(text: str) -> list[int]:
    counts: list[int] = []
    value, shift = 0, 0
    for character in text:
        part = ord(character) - FIRST
        if not 0 <= part < 2 * MORE or shift > MOST_BITS:
            raise Unreadable(f"counts hold {character!r} where COCO's text has none such")
        value, shift = value | (part & (MORE - 1)) << shift, shift + BITS
        if part & MORE:
            continue
        if part & SIGN:
            value -= 1 << shift
        counts.append(value + (counts[-2] if len(counts) > 2 else 0))
        value, shift = 0, 0
    if shift:
        raise Unreadable("counts end in the middle of a number; send the whole text")
    return counts
