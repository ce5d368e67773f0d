"""Samples and what becomes of an upload."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import TypedDict

Label = int | bytes | None
"""A class index, the target's little-endian float32 bytes, or none yet."""
DAMAGED = "damaged: "
"""How the reason of a quarantine begins when the sample's bytes are not those that were stored."""
CHANGED = f"{DAMAGED}its bytes are not those that were stored"


VALIDATION_BELOW = (2**64 // 10).to_bytes(8, "big")
"""Samples whose digests are lower are for validation; of the base set, what versions are judged on.

One in ten, by chance of its inputs and so for ever: equal inputs are never in both parts.
"""


class Split(str, Enum):
    """Which part of the samples a sample belongs to.

    base: what a model must not forget. Jobs replay a share of it, and no quota takes it away.
    """

    TRAIN = "train"
    VALIDATION = "validation"
    BASE = "base"


class SampleColumns(TypedDict, total=False):
    """Columns of samples that come with an upload, beside label and inputs: one for each sample.

    split: also one for all; None derives it from the inputs.
    """

    key: Sequence[str | None] | None
    split: Sequence[Split | None] | Split | None
    pinned: Sequence[bool]
    weight: Sequence[float]


SAMPLE_COLUMNS: dict[str, object] = {"key": None, "split": None, "pinned": False, "weight": 1.0}
"""The names of SampleColumns → what holds where none is given."""


class Unset(Enum):
    """The default of a parameter for which None means something."""

    UNSET = "unset"


UNSET = Unset.UNSET


@dataclass(frozen=True, slots=True)
class Sample:
    """A sample's row; the fields are columns, but for size_bytes.

    pinned: no quota takes it away. quarantine: why training leaves it out, None where it does not.
    owner: the token that has added it and may change it; None if that may change anybody's.
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
    quarantine: str | None = None
    owner: str | None = None
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class StageResult:
    """What became of an upload. Ids of the accepted samples are consecutive, None without any.

    evicted: samples that the model's quota took away for it, its own among them. conflicts: those
    of the accepted that have the inputs of another sample, and another label. twins: the samples
    that duplicates equal, by their ordinal in the upload; of a thousand duplicates at most.
    """

    accepted: int
    duplicates: int
    first_id: int | None = None
    last_id: int | None = None
    evicted: int = 0
    conflicts: int = 0
    twins: Mapping[int, int] = field(default_factory=dict)
