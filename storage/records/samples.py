"""Samples and what becomes of an upload."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import Enum


class Split(str, Enum):
    """Which part of the samples a sample belongs to."""

    TRAIN = "train"
    VALIDATION = "validation"


class Unset(Enum):
    """The default of a parameter for which None means something."""

    UNSET = "unset"


UNSET = Unset.UNSET


@dataclass(frozen=True, slots=True)
class Sample:
    """A sample's row. label: class index, or the target's float32 bytes, or None.

    pinned: no quota takes it away. quarantine: why training leaves it out, None where it does not.
    """

    id: int
    model_id: int
    key: str | None
    split: Split
    label: int | bytes | None
    sha256: str
    size_bytes: int
    created_at: datetime
    pinned: bool = False
    quarantine: str | None = None


@dataclass(frozen=True, slots=True)
class StageResult:
    """What became of an upload. Ids of the accepted samples are consecutive, None without any.

    evicted: samples that the model's quota took away for it, its own among them.
    """

    accepted: int
    duplicates: int
    first_id: int | None = None
    last_id: int | None = None
    evicted: int = 0
