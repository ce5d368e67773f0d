from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from service.policy.checks import ConditionCheck
from service.policy.judge import Hysteresis

BLOCK_S, CLEAR_S = 10.0, 15.0
STOP, RESUME = 40.0, 60.0

levels = st.floats(0, 100)
steps = st.lists(st.tuples(st.floats(0.01, 20), levels), max_size=200)


def of(level, block_after_s=BLOCK_S, clear_after_s=CLEAR_S):
    """The check of a level that must not be low."""
    return ConditionCheck("it", level < STOP, level >= RESUME, "", block_after_s, clear_after_s)


def run(switch, observed, *, block_after_s=BLOCK_S, clear_after_s=CLEAR_S):
    """(time, level, blocked) after each observation of a level that must not be low."""
    now_s, states = 0.0, []
    for wait_s, level in observed:
        now_s += wait_s
        blocked = switch.update(of(level, block_after_s, clear_after_s), now_s=now_s)
        states.append((now_s, level, blocked))
    return states


def changes(states):
    pairs = pairwise(states)
    return [after for before, after in pairs if before[2] != after[2]]


def test_the_first_look_decides_at_once():
    assert run(Hysteresis(), [(1, 60)])[0][2] is False
    assert run(Hysteresis(), [(1, 59)])[0][2] is True
    assert run(Hysteresis(), [(1, 10)])[0][2] is True


def test_between_the_levels_nothing_changes():
    assert not changes(run(Hysteresis(), [(1, 80), *[(60, 50)] * 20]))
    assert not changes(run(Hysteresis(), [(1, 20), *[(60, 50)] * 20]))


def test_a_short_excursion_is_forgiven():
    assert not changes(
        run(Hysteresis(), [(1, 80), (1, 10), (9.9, 10), (0.05, 80), (5, 10), (9, 10)])
    )


def test_an_excursion_longer_than_the_grace_blocks():
    assert [now_s for now_s, _, _ in changes(run(Hysteresis(), [(1, 80), (1, 10), (10, 10)]))] == [
        12
    ]


def test_without_delays_it_follows_at_once():
    states = run(Hysteresis(), [(1, 80), (1, 10), (1, 80)], block_after_s=0, clear_after_s=0)
    assert [blocked for _, _, blocked in states] == [False, True, False]


def test_a_restart_forgets_what_was_pending():
    switch = Hysteresis()
    run(switch, [(1, 80), (1, 10)])
    assert switch.held_s(9.0) == 7
    switch.restart()
    assert switch.held_s(9.0) == 0


@given(steps)
def test_it_never_flaps_within_its_delays(observed):
    moves = changes(run(Hysteresis(), observed))
    for (before_s, _, _), (after_s, _, blocked) in pairwise(moves):
        assert after_s - before_s >= (BLOCK_S if blocked else CLEAR_S) - 1e-6


@given(steps)
def test_it_blocks_only_beyond_the_stop_level_and_opens_only_at_the_resume_level(observed):
    for _, level, blocked in changes(run(Hysteresis(), observed)):
        assert level < STOP if blocked else level >= RESUME


@given(steps)
def test_what_lasts_longer_than_the_delay_is_always_obeyed(observed):
    switch = Hysteresis()
    now_s = run(switch, observed)[-1][0] if observed else 0.0
    for level in (0.0, 100.0):
        for _ in range(3):
            now_s += CLEAR_S
            blocked = switch.update(of(level), now_s=now_s)
        assert blocked is (level < STOP)


@given(steps)
def test_looking_twice_at_the_same_moment_changes_nothing(observed):
    switch, now_s = Hysteresis(), 0.0
    for wait_s, level in observed:
        now_s += wait_s
        first, second = (switch.update(of(level), now_s=now_s) for _ in range(2))
        assert first == second
