"""Commands to a working child. Each is obeyed between two steps."""

from __future__ import annotations

from typing import Literal

from service.training.protocol.serialization import Serialized


class Pause(Serialized, frozen=True):
    """Finish the step, save a checkpoint, end."""

    kind: Literal["pause"] = "pause"


class Cancel(Serialized, frozen=True):
    """Finish the step, end without saving."""

    kind: Literal["cancel"] = "cancel"


class Hold(Serialized, frozen=True):
    """Finish the step, save a checkpoint, then wait in memory for the next command."""

    kind: Literal["hold"] = "hold"


class Continue(Serialized, frozen=True):
    """Continue after a `Hold`."""

    kind: Literal["continue"] = "continue"
