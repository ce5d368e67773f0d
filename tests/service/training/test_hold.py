"""A child that is held waits in memory: it takes no step, says that it lives, and goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from service.training.messages import Cancel, Continue, Done, Hold, Pause, Progress, Saved, Stopped

LONG = {"max_steps": 10_000_000}
BEATS = 2


def steps(child: Any, beats: int) -> list[int]:
    """The steps that the next signs of life tell."""
    return [child.wait_for(lambda said: isinstance(said, Progress)).step for _ in range(beats)]


def held(child: Any) -> int:
    """Hold it, and return the step at which it waits."""
    steps(child, 1)
    child.send(Hold())
    step = -1
    while (after := steps(child, 1)[0]) != step:
        step = after
    return step


@pytest.fixture
def order(make_workshop: Callable[..., Any], make_artifacts: Callable[..., Any]) -> Any:
    return make_workshop().order(make_artifacts(), **LONG)


def test_a_held_child_lives_and_takes_no_step(order: Any, spawn: Callable[..., Any]) -> None:
    child = spawn(order)
    step = held(child)
    assert steps(child, BEATS) == [step] * BEATS
    child.send(Continue())
    child.wait_for(lambda said: isinstance(said, Progress) and said.step > step)
    child.send(Cancel())
    assert child.last() == Stopped("cancelled")


def test_a_held_child_saves_and_ends_when_it_is_told_to(
    order: Any, spawn: Callable[..., Any]
) -> None:
    child = spawn(order)
    step = held(child)
    child.send(Pause())
    saved = child.wait_for(lambda said: isinstance(said, Saved))
    assert saved.state.step == step
    assert child.last() == Stopped("paused")


def test_a_hold_is_no_training_time(
    make_workshop: Callable[..., Any],
    make_artifacts: Callable[..., Any],
    spawn: Callable[..., Any],
) -> None:
    child = spawn(make_workshop().order(make_artifacts(), max_seconds=2.0))
    step = held(child)
    steps(child, BEATS + 1)
    child.send(Continue())
    done = child.last()
    assert isinstance(done, Done)
    assert done.reason == "out_of_time"
    assert done.step > step
