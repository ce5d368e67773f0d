"""Commands to a working child. Each is obeyed between two steps."""

from __future__ import annotations

from service.training.protocol.serialization import Line


class Pause(Line, frozen=True):
    """Finish the step, save a checkpoint, end."""


class Cancel(Line, frozen=True):
    """Finish the step, end without saving."""


class Hold(Line, frozen=True):
    """Finish the step, save a checkpoint, then wait in memory for the next command."""


class Continue(Line, frozen=True):
    """Continue after a `Hold`."""
