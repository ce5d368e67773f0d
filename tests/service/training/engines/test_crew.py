"""Calls run at the same time as the caller's own, and their failures are the caller's."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading

import pytest
from support import DEADLINE_S

from service.training.engines.sessions.crew import Crew


def test_calls_run_at_the_same_time() -> None:
    meeting = threading.Barrier(3)
    Crew().run([lambda: meeting.wait(10)] * 3)  # a barrier that is not met raises


def test_the_first_call_runs_on_the_callers_thread_and_no_thread_is_made_for_it() -> None:
    before = threading.active_count()
    found: list[int] = []
    crew = Crew()
    crew.run([lambda: found.append(threading.get_ident())])
    assert found == [threading.get_ident()]
    assert threading.active_count() == before


def test_a_failure_beside_the_caller_is_raised_at_the_caller_and_the_crew_goes_on() -> None:
    crew, done = Crew(), []

    def fail() -> None:
        raise MemoryError("no room")

    for _ in range(2):
        with pytest.raises(MemoryError, match="no room"):
            crew.run([lambda: done.append(1), fail])
    crew.run([lambda: done.append(1), lambda: done.append(1)])
    assert len(done) == 4


def test_a_failure_of_the_caller_is_raised_when_the_others_are_over() -> None:
    crew, release, over = Crew(), threading.Event(), []

    def fail() -> None:
        release.set()
        raise ValueError("mine")

    def work() -> None:
        assert release.wait(10)
        over.append(True)

    with pytest.raises(ValueError, match="mine"):
        crew.run([fail, work])
    assert over == [True]


def test_threads_end_with_their_crew() -> None:
    before = set(threading.enumerate())
    crew = Crew()
    crew.run([lambda: None] * 3)
    helpers = set(threading.enumerate()) - before
    assert len(helpers) == 2
    del crew
    gc.collect()
    assert not any(helper.is_alive() for helper in helpers)


def test_an_interpreter_ends_while_a_crew_stands_by() -> None:
    program = (
        "from service.training.engines.sessions.crew import Crew; crew = Crew();"
        "crew.run([lambda: None] * 2); print('over')"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], check=True, timeout=DEADLINE_S, capture_output=True
    )
    assert run.stdout.split() == [b"over"]
