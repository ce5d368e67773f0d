"""Threads that run native calls in parallel with their caller.

A waking thread often returns to the processor where it ran last, even if that is the caller's. Then
both take turns: such steps of an MLP took 2.0 ms instead of 1.65 (two processors, Linux 6.18).
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from queue import SimpleQueue

import numpy as np


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


Call = Callable[[], object]
Begun = SimpleQueue[tuple["int | None", Call] | None]
"""Calls, each with the processor of its caller; None ends the thread."""
Ended = SimpleQueue[BaseException | None]


class Crew:
    """Runs several calls in parallel. Threads are started when first needed.

    They end with the crew, and before the interpreter does.
    """

    def __init__(self) -> None:
        self._helpers: list[_Helper] = []

    def run(self, calls: Sequence[Call]) -> None:
        """Run all calls, the first on the caller's thread, and return when all have ended.

        Raises the first exception by order of calls.
        """
        if len(calls) == 1:
            calls[0]()
            return
        others = calls[1:]
        while len(self._helpers) < len(others):
            self._helpers.append(_Helper())
        for helper, call in zip(self._helpers, others, strict=False):
            helper.begin(call)
        try:
            calls[0]()
        finally:  # they use the caller's buffers
            failures = [helper.wait() for helper in self._helpers[: len(others)]]
        for failure in failures:
            if failure is not None:
                raise failure


class _Helper:
    """One thread, one call at a time.

    An executor does the same, but its futures hold the interpreter's lock for 20 to 80 µs longer
    in a step of 2 ms (measured).
    """

    def __init__(self) -> None:
        self._calls: Begun = SimpleQueue()
        self._ended: Ended = SimpleQueue()
        thread = threading.Thread(
            target=_serve, args=(self._calls, self._ended), name="training helper", daemon=True
        )
        thread.start()
        weakref.finalize(self, _end, self._calls, thread)

    def begin(self, call: Call) -> None:
        self._calls.put((current_processor(), call))

    def wait(self) -> BaseException | None:
        """Wait for the call; returns the exception that it raised, if any."""
        return self._ended.get()


def _serve(calls: Begun, ended: Ended) -> None:
    np.seterr(all="ignore")  # of this thread: values that are not finite show in the next loss
    aside = Aside()
    while (begun := calls.get()) is not None:
        processor, call = begun
        aside.avoid(processor)
        failure: BaseException | None = None
        try:
            call()
        except BaseException as error:  # noqa: BLE001 - the caller raises it
            failure = error
        del begun, call  # it has references to the arrays of a step
        ended.put(failure)
        del failure


def _end(calls: Begun, thread: threading.Thread) -> None:
    calls.put(None)
    if thread is not threading.current_thread():  # garbage collection may run in this thread
        thread.join()
