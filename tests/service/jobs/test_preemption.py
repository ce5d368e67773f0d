from __future__ import annotations

import pytest

from service.jobs.preemption import LASTING, Instruction, Preemption
from storage.records.jobs import Blocker

LOAD = [Blocker("foreign_cpu", "other programs are busy")]


def moves(*looks, suspend_s):
    preemption = Preemption()
    return [
        preemption.decide(blockers, now_s=now_s, suspend_s=suspend_s) for now_s, blockers in looks
    ]


def test_nothing_is_told_while_nothing_blocks():
    assert moves((0.0, []), (1.0, []), suspend_s=30) == [None, None]


def test_without_a_patience_the_job_ends_at_once_and_is_told_once():
    looks = [(0.0, []), (1.0, LOAD), (1.5, LOAD), (2.0, [])]
    assert moves(*looks, suspend_s=0) == [None, Instruction.END, None, None]


def test_a_short_block_is_waited_out_in_memory():
    looks = [(0.0, LOAD), (5.0, LOAD), (9.0, []), (10.0, [])]
    assert moves(*looks, suspend_s=10) == [Instruction.HOLD, None, Instruction.GO_ON, None]


def test_a_block_that_lasts_ends_the_job_after_all():
    looks = [(0.0, LOAD), (5.0, LOAD), (10.0, LOAD), (11.0, LOAD)]
    assert moves(*looks, suspend_s=10) == [Instruction.HOLD, None, Instruction.END, None]


def test_patience_begins_anew_with_each_block():
    looks = [(0.0, LOAD), (8.0, []), (9.0, LOAD), (18.0, LOAD), (19.0, LOAD)]
    told = [Instruction.HOLD, Instruction.GO_ON, Instruction.HOLD, None, Instruction.END]
    assert moves(*looks, suspend_s=10) == told


@pytest.mark.parametrize("condition", sorted(LASTING))
def test_nothing_waits_in_memory_for_what_will_last(condition):
    assert moves((0.0, [Blocker(condition, "")]), suspend_s=3600) == [Instruction.END]


def test_a_job_that_is_held_ends_when_a_person_pauses_all():
    looks = [(0.0, LOAD), (1.0, [*LOAD, Blocker("paused", "")])]
    assert moves(*looks, suspend_s=3600) == [Instruction.HOLD, Instruction.END]
