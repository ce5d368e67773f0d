"""Commands to a working child. Each is obeyed between two steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Pause:
    """Finish the step, save a checkpoint, end."""

    kind: Literal["pause"] = "pause"


@dataclass(frozen=True, slots=True)
class Cancel:
    """Finish the step, end without saving."""

    kind: Literal["cancel"] = "cancel"


@dataclass(frozen=True, slots=True)
class Hold:
    """Finish the step, save a checkpoint, then wait in memory for the next command."""

    kind: Literal["hold"] = "hold"


@dataclass(frozen=True, slots=True)
class Continue:
    """Continue after a `Hold`."""

    kind: Literal["continue"] = "continue"
