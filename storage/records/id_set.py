"""Sets of sample ids in a few bytes: the bounds of their runs, delta-encoded."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import TypeAlias

import numpy as np

from storage.arrays import NDArray

Ids: TypeAlias = "NDArray[np.int64]"


def encode(ids: Iterable[int] | Ids) -> bytes:
    """A set of ids. A million of them in one run take some 20 bytes, every other one 10 KiB."""
    bounds = _runs(ids if isinstance(ids, np.ndarray) else np.fromiter(ids, np.int64))
    return zlib.compress(np.diff(bounds, prepend=0).astype("<i8").tobytes())


def decode(data: bytes) -> Ids:
    """The ids, rising. Raises ValueError if `data` is not what `encode` made."""
    bounds = _bounds(data)
    starts, lengths = bounds[0::2], np.diff(bounds)[0::2]
    before = np.cumsum(lengths) - lengths
    ids: Ids = np.arange(lengths.sum(), dtype=np.int64) + np.repeat(starts - before, lengths)
    return ids


def within(data: bytes, ids: Ids) -> Ids:
    """Those of these ids that are in the set, however large that says it is. Raises as `decode`."""
    passed = np.searchsorted(_bounds(data), ids, side="right")
    inside: Ids = ids[passed % 2 == 1]
    return inside


def meeting(sets: Iterable[bytes], ids: Ids) -> list[bool]:
    """Of each set, whether one of these ids is in it. Raises as `decode`."""
    runs = _runs(ids)
    return [_meet(_bounds(data), runs) for data in sets]


def union(sets: Iterable[Ids]) -> Ids:
    """All their ids, rising."""
    ids = np.sort(np.concatenate([np.empty(0, np.int64), *sets]))
    # numpy.unique would load numpy.ma: 2 MB that the resting daemon does without.
    unique: Ids = ids[np.diff(ids, prepend=-1) != 0]
    return unique


def _runs(ids: Ids) -> Ids:
    """As `_bounds`, of ids in any order."""
    unique = union([ids])
    breaks = np.flatnonzero(np.diff(unique) != 1) + 1
    bounds = np.empty(2 * (len(breaks) + 1) if len(unique) else 0, np.int64)
    if len(unique):
        bounds[0::2] = unique[np.concatenate([[0], breaks])]
        bounds[1::2] = unique[np.concatenate([breaks - 1, [-1]])] + 1
    return bounds


def _meet(one: Ids, other: Ids) -> bool:
    """Whether two sets, as their bounds, have an id in common."""
    starts, stops = one[0::2], one[1::2]
    passed = np.searchsorted(other, starts, side="right")
    # A run begins within one of the other's, or the other's next begins before it ends.
    following = np.append(other, np.iinfo(np.int64).max)[passed]
    return bool((passed % 2 == 1).any() or (following < stops).any())


def _bounds(data: bytes) -> Ids:
    """The first id of each run, and the one after its last."""
    try:
        return np.cumsum(np.frombuffer(zlib.decompress(data), "<i8"), dtype=np.int64)
    except zlib.error as error:
        raise ValueError(f"not a set of ids: {error}") from error
