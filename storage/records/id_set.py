"""Sets of sample ids in a few bytes: the bounds of their runs, delta-encoded."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

Ids: TypeAlias = "NDArray[np.int64]"


def encode(ids: Iterable[int] | Ids) -> bytes:
    """A set of ids. A million of them in one run take some 20 bytes, every other one 10 KiB."""
    given = np.sort(ids if isinstance(ids, np.ndarray) else np.fromiter(ids, np.int64))
    # numpy.unique would load numpy.ma: 2 MB that the resting daemon does without.
    unique = given[np.diff(given, prepend=-1) != 0]
    breaks = np.flatnonzero(np.diff(unique) != 1) + 1
    bounds = np.empty(2 * (len(breaks) + 1) if len(unique) else 0, np.int64)
    if len(unique):
        bounds[0::2] = unique[np.concatenate([[0], breaks])]
        bounds[1::2] = unique[np.concatenate([breaks - 1, [-1]])] + 1
    return zlib.compress(np.diff(bounds, prepend=0).astype("<i8").tobytes())


def decode(data: bytes) -> Ids:
    """The ids, rising. Raises ValueError if `data` is not what `encode` made."""
    try:
        bounds = np.cumsum(np.frombuffer(zlib.decompress(data), "<i8")).reshape(-1, 2)
    except zlib.error as error:
        raise ValueError(f"not a set of ids: {error}") from error
    if len(bounds) == 0:
        return np.empty(0, np.int64)
    return np.concatenate([np.arange(start, stop, dtype=np.int64) for start, stop in bounds])
