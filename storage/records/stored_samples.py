"""A sample's row, and the result of an upload. A child that trains needs neither."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from msgspec import Struct, field

from storage.records.samples import Label, Split


class Sample(Struct, frozen=True):
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
    quarantine: str | None = None
    owner: str | None = None
    weight: float = 1.0


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
