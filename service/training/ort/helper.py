"""A thread that stands by for short calls into native code."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from queue import SimpleQueue

from service.training.engines.placement import Aside

Call = Callable[[], object]


class Helper:
    """Carries out one call at a time, beside the thread that asks.

    An executor does the same, but its futures hold the interpreter's lock for 20 to 80 µs longer,
    of a step of 2 ms (measured). The thread ends with its owner, and before the interpreter does.
    """

    def __init__(self) -> None:
        self._calls: SimpleQueue[Call | None] = SimpleQueue()
        self._ends: SimpleQueue[bool] = SimpleQueue()
        self._thread = threading.Thread(
            target=_serve, args=(self._calls, self._ends), name="helper", daemon=True
        )
        self._thread.start()
        assert self._thread.native_id is not None  # it has started
        self._aside = Aside(self._thread.native_id)
        weakref.finalize(self, _end, self._calls, self._thread)

    def begin(self, call: Call) -> None:
        """Let the thread carry it out, beside the caller."""
        self._aside.step()
        self._calls.put(call)

    def wait(self) -> None:
        """Return when it has. Raises RuntimeError if it failed, which also ends the thread."""
        if not self._ends.get():
            self._thread.join()  # first it tells how
            raise RuntimeError("a helper's call failed; stderr tells how")


def _serve(calls: SimpleQueue[Call | None], ends: SimpleQueue[bool]) -> None:
    while (call := calls.get()) is not None:
        done = False
        try:
            call()
            done = True
        finally:
            ends.put(done)


def _end(calls: SimpleQueue[Call | None], thread: threading.Thread) -> None:
    calls.put(None)
    if thread is not threading.current_thread():  # which may be the one that collects garbage
        thread.join()
