"""How any order may end early."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Stopped:
    """The child obeyed a command, or its parent is gone."""

    reason: Literal["paused", "cancelled", "orphaned"]
    kind: Literal["stopped"] = "stopped"


@dataclass(frozen=True, slots=True)
class Failed:
    """The order cannot be carried out, and trying again would not help."""

    code: str
    detail: str
    kind: Literal["failed"] = "failed"
