"""What samples have: a label, a split, columns."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import TypedDict

Label = int | bytes | None
"""A class index, the target's little-endian float32 bytes, or none yet."""
DAMAGED = "damaged: "
"""The prefix of a quarantine's reason if the sample's bytes are not those that were stored."""
CHANGED = f"{DAMAGED}its bytes are not those that were stored"


VALIDATION_BELOW = (2**64 // 10).to_bytes(8, "big")
"""Samples with lower digests are for validation; those of the base set, to judge versions on.

One in ten, decided by the hash of its inputs and so permanently: equal inputs are never in both
parts.
"""


class Split(str, Enum):
    """Which part of the samples a sample belongs to.

    base: samples that a model must not forget. Jobs replay some of them, and no quota evicts them.
    """

    TRAIN = "train"
    VALIDATION = "validation"
    BASE = "base"


class SampleColumns(TypedDict, total=False):
    """Columns of an upload besides label and inputs: one value per sample.

    split: or one value for all; None derives it from the inputs.
    """

    key: Sequence[str | None] | None
    split: Sequence[Split | None] | Split | None
    pinned: Sequence[bool]
    weight: Sequence[float]


SAMPLE_COLUMNS: dict[str, object] = {"key": None, "split": None, "pinned": False, "weight": 1.0}
"""The names of SampleColumns → their defaults."""


class Unset(Enum):
    """The default of a parameter for which None is a meaningful value."""

    UNSET = "unset"


UNSET = Unset.UNSET
