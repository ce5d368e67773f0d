"""Threads that carry out native calls at the same time as their caller."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from queue import SimpleQueue

from service.training.engines.placement import Aside

Call = Callable[[], object]
Ended = SimpleQueue[BaseException | None]


class Crew:
    """Carries out several calls at once. Threads begin when they are needed first.

    They end with the crew, and before the interpreter does.
    """

    def __init__(self) -> None:
        self._helpers: list[_Helper] = []

    def run(self, calls: Sequence[Call]) -> None:
        """Carry out all calls, the first on the caller's own thread, and return when all are over.

        Raises what the first of those that failed raised.
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
        finally:  # they work on the caller's buffers
            failures = [helper.wait() for helper in self._helpers[: len(others)]]
        for failure in failures:
            if failure is not None:
                raise failure


class _Helper:
    """One thread, one call at a time.

    An executor does the same, but its futures hold the interpreter's lock for 20 to 80 µs longer,
    of a step of 2 ms (measured).
    """

    def __init__(self) -> None:
        self._calls: SimpleQueue[Call | None] = SimpleQueue()
        self._ended: Ended = SimpleQueue()
        thread = threading.Thread(
            target=_serve, args=(self._calls, self._ended), name="training helper", daemon=True
        )
        thread.start()
        assert thread.native_id is not None  # it has started
        self._aside = Aside(thread.native_id)
        weakref.finalize(self, _end, self._calls, thread)

    def begin(self, call: Call) -> None:
        self._aside.step()
        self._calls.put(call)

    def wait(self) -> BaseException | None:
        """What the call raised, when it is over."""
        return self._ended.get()


def _serve(calls: SimpleQueue[Call | None], ended: Ended) -> None:
    while (call := calls.get()) is not None:
        failure: BaseException | None = None
        try:
            call()
        except BaseException as error:  # noqa: BLE001 - the caller raises it
            failure = error
        del call  # it holds the arrays of a step
        ended.put(failure)
        del failure


def _end(calls: SimpleQueue[Call | None], thread: threading.Thread) -> None:
    calls.put(None)
    if thread is not threading.current_thread():  # which may be the one that collects garbage
        thread.join()
