"""The states of a run: what each command, each end of a child and each shortage leads to."""

from __future__ import annotations

import pytest

from service.errors import ChildDied
from service.jobs.run import FIRST_COMMANDS, NEXT, RunState
from service.training.protocol.messages.shared import Cancel, Continue, Failed, Hold, Pause, Stopped
from service.training.protocol.messages.training import Done, Updated
from storage.records.jobs import NEXT as JOB_NEXT
from storage.records.jobs import Blocker, JobState

COMMANDS = (Hold, Continue, Pause, Cancel)
ENDS = (Stopped, Failed, Done, Updated, ChildDied, Blocker)


def test_nothing_else_happens_to_a_run() -> None:
    assert set(NEXT) == {*COMMANDS, *ENDS}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_leaves_a_run_running_and_an_ended_one_alone(command: type) -> None:
    assert all(isinstance(state, RunState) for state in NEXT[command])
    assert all(isinstance(after, RunState) for after in NEXT[command].values())


@pytest.mark.parametrize("end", ENDS)
def test_an_end_moves_the_job_where_a_running_one_may_go(end: type) -> None:
    assert set(NEXT[end].values()) <= JOB_NEXT[JobState.RUNNING]


@pytest.mark.parametrize("end", [each for each in ENDS if each is not Stopped])
def test_every_end_is_foreseen_in_every_state(end: type) -> None:
    assert set(NEXT[end]) == set(RunState)


def test_only_a_child_that_was_told_to_stop_stops() -> None:
    assert set(NEXT[Stopped]) == {RunState.PAUSING, RunState.CANCELLING}


def test_a_cancelled_run_is_never_paused() -> None:
    after = {what: moves.get(RunState.CANCELLING) for what, moves in NEXT.items()}
    assert {after[what] for what in COMMANDS} == {None}
    assert {after[what] for what in (Stopped, ChildDied, Blocker)} == {JobState.CANCELLED}


def test_a_child_that_starts_late_is_sent_the_command_that_led_to_the_state() -> None:
    for state, command in FIRST_COMMANDS.items():
        assert state in NEXT[type(command)].values()
    assert set(FIRST_COMMANDS) == set(RunState) - {RunState.TRAINING}
