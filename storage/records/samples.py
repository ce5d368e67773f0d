"""What samples have: a label, a split, columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import Enum

from msgspec import Struct, field

Label = int | bytes | None
"""A class index, the target's little-endian float32 bytes, or none yet."""
DAMAGED = "damaged: "
"""The prefix of a quarantine's reason if the sample's bytes are not those that were stored."""
CHANGED = f"{DAMAGED}its bytes are not those that were stored"
LOST = f"{DAMAGED}its bytes are missing"
UNREADABLE = f"{DAMAGED}its bytes cannot be read"


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


SAMPLE_COLUMNS: dict[str, object] = {"key": None, "split": None, "pinned": False, "weight": 1.0}
"""Columns of an upload besides label and inputs → their defaults.

A split that is not given derives from the inputs.
"""


class Sample(Struct, frozen=True, kw_only=True):
    """A sample's row; the fields are columns, except size_bytes.

    pinned: no quota evicts it. quarantine: why training leaves it out, None if it does not.
    owner: the token that added it and may change it; None if that one may change all samples.
    weight: factor on its loss in training.
    """

    id: int
    model_id: int
    key: str | None
    split: Split
    label: Label
    sha256: str
    size_bytes: int
    created_at: datetime
    pinned: bool = False
    weight: float = 1.0
    quarantine: str | None = None
    owner: str | None = None


class StageResult(Struct, frozen=True):
    """The result of an upload. Ids of the accepted samples are consecutive, None without any.

    evicted: samples removed by the model's quota, including the upload's own. conflicts: accepted
    samples with the inputs of another sample but a different label. twins: a duplicate's ordinal
    in the upload → the sample that it equals, for at most a thousand duplicates.
    """

    accepted: int
    duplicates: int
    first_id: int | None = None
    last_id: int | None = None
    evicted: int = 0
    conflicts: int = 0
    twins: Mapping[int, int] = field(default_factory=dict)


def require_columns(names: Iterable[str], *others: str) -> None:
    """Raises TypeError for names that are neither columns of uploads nor one of the others."""
    if unknown := {*names} - {*SAMPLE_COLUMNS, *others}:
        raise TypeError(f"samples have no column {', '.join(sorted(unknown))}")
