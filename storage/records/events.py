"""What happened."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened; ids rise by one and are never used again."""

    id: int
    type: str
    model: str | None
    data: dict[str, Any]
    created_at: datetime
