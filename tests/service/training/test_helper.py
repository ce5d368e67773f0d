"""A thread that helps runs beside the one who asks, and its failures are told."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator

import pytest

from service.training.ort.helper import Helper

if sys.platform != "linux":
    pytest.skip("processors are chosen on Linux only", allow_module_level=True)


@pytest.fixture
def processors() -> Iterator[list[int]]:
    """Those that we may use, given back at the end."""
    allowed = os.sched_getaffinity(0)
    if len(allowed) < 2:
        pytest.skip("there is one processor only")
    yield sorted(allowed)
    os.sched_setaffinity(0, allowed)


def processors_of_a_call(helper: Helper) -> set[int]:
    """Where a call may run; it is carried out in the helper's thread."""
    found: list[set[int]] = []
    helper.begin(lambda: found.append(os.sched_getaffinity(threading.get_native_id())))
    helper.wait()
    return found[0]


def test_it_stays_off_the_processor_of_the_caller_wherever_that_moves(
    processors: list[int],
) -> None:
    helper = Helper()
    for own in processors[:2] * 2:
        os.sched_setaffinity(0, {own})
        assert processors_of_a_call(helper) == set(processors) - {own}


def test_on_one_processor_it_runs_where_the_caller_does(processors: list[int]) -> None:
    os.sched_setaffinity(0, {processors[0]})
    assert processors_of_a_call(Helper()) == {processors[0]}


def test_a_thread_that_may_not_be_moved_helps_all_the_same(
    processors: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(*_: object) -> None:
        raise PermissionError("a filter of system calls")

    helper = Helper()
    monkeypatch.setattr(os, "sched_setaffinity", forbidden)
    for _ in range(2):
        assert processors_of_a_call(helper) == set(processors)
