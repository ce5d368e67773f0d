"""Threads that run native calls in parallel with their caller."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from queue import SimpleQueue

import numpy as np

from service.training.engines.placement import Aside, current_processor

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
