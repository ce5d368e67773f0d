"""Thread placement: keeps helper threads off the caller's processor.

A waking thread often returns to the processor where it ran last, even if that is the caller's. Then
both take turns: such steps of an MLP took 2.0 ms instead of 1.65 (two processors, Linux 6.18).
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable


class Aside:
    """Keeps the calling thread off another one's processor. In the sandbox none can place others.

    A step takes a microsecond, unless the other thread has moved.
    """

    def __init__(self) -> None:
        self._allowed = os.sched_getaffinity(0) if sys.platform == "linux" else set()
        self._avoided: int | None = None

    def avoid(self, processor: int | None) -> None:
        """processor: where the other thread runs, None if unknown."""
        if sys.platform == "linux" and processor != self._avoided and len(self._allowed) > 1:
            self._avoided = processor
            try:
                os.sched_setaffinity(0, self._allowed - {processor})
            except OSError:  # forbidden, or the processors have changed: it runs anywhere
                self._allowed = set()


def _processor_function() -> Callable[[], int | None]:
    """sched_getcpu(3), which Python does not have; None where the C library has none."""
    library = ctypes.CDLL(None) if sys.platform == "linux" else None
    return getattr(library, "sched_getcpu", lambda: None)


current_processor = _processor_function()
"""The processor that the calling thread runs on, None if unknown."""
