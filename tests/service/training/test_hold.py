"""A child that is held waits in memory: it takes no step, says that it lives, and goes on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from service.training import checkpoints as written
from service.training.protocol.messages.shared import Cancel, Continue, Hold, Pause, Stopped
from service.training.protocol.messages.training import Done, Progress, Saved, Train

LONG = {"max_steps": 10_000_000}
BEATS = 2


def steps(child: Any, beats: int) -> list[int]:
    """The steps that the next signs of life tell."""
    return [child.wait_for(lambda said: isinstance(said, Progress)).step for _ in range(beats)]


def checkpoints(child: Any) -> list[Saved]:
    """What it has saved by now."""
    return [said for said in child.said if isinstance(said, Saved)]


def held(child: Any) -> int:
    """Hold it, and return the step at which it waits."""
    child.wait_for(lambda said: isinstance(said, Progress) and said.step > 0)
    child.send(Hold())
    step = -1
    while (after := steps(child, 1)[0]) != step:
        step = after
    return step


@pytest.fixture
def task(make_workshop: Callable[..., Any], make_artifacts: Callable[..., Any]) -> Any:
    return make_workshop().task(make_artifacts(), **LONG)


def test_a_held_child_lives_and_takes_no_step(task: Any, spawn: Callable[..., Any]) -> None:
    child = spawn(task)
    step = held(child)
    assert steps(child, BEATS) == [step] * BEATS
    child.send(Continue())
    child.wait_for(lambda said: isinstance(said, Progress) and said.step > step)
    child.send(Cancel())
    assert child.last() == Stopped("cancelled")


def test_a_held_child_has_saved_its_state_and_ends_when_it_is_told_to(
    task: Any, spawn: Callable[..., Any]
) -> None:
    child = spawn(task)
    step = held(child)
    assert [saved.state.step for saved in checkpoints(child)] == [step]
    child.send(Pause())
    assert child.last() == Stopped("paused")
    assert len(checkpoints(child)) == 1, "nothing has changed since it was saved"


def test_a_child_that_is_held_again_saves_what_it_has_done_since(
    task: Any, spawn: Callable[..., Any]
) -> None:
    child = spawn(task)
    steps_held = []
    for _ in range(2):
        steps_held.append(held(child))
        child.send(Continue())
        child.wait_for(lambda said: isinstance(said, Progress) and said.step > steps_held[-1])
    child.send(Cancel())
    assert child.last() == Stopped("cancelled")
    assert [saved.state.step for saved in checkpoints(child)] == steps_held


def test_a_held_job_ends_with_the_same_bytes(
    make_workshop: Callable[..., Any],
    make_artifacts: Callable[..., Any],
    spawn: Callable[..., Any],
    train: Callable[..., Any],
    resumed: Callable[..., Train],
) -> None:
    task = make_workshop().task(make_artifacts(dropout=True), max_steps=3000, schedule="cosine")
    straight, _ = train(task)
    child = spawn(task)
    assert held(child) < straight.step
    child.send(Continue())
    gone_on = child.last()
    resumed_where_held, _ = train(resumed(task, checkpoints(child)[0]))
    for done in (gone_on, resumed_where_held):
        assert Path(done.path).read_bytes() == Path(straight.path).read_bytes()
        assert (done.validation, done.train_loss) == (straight.validation, straight.train_loss)


def test_a_hold_is_no_training_time(
    make_workshop: Callable[..., Any],
    make_artifacts: Callable[..., Any],
    spawn: Callable[..., Any],
) -> None:
    child = spawn(make_workshop().task(make_artifacts(), max_seconds=2.0))
    step = held(child)
    steps(child, BEATS + 1)
    child.send(Continue())
    done = child.last()
    assert isinstance(done, Done)
    assert done.reason == "out_of_time"
    assert done.step > step


def test_a_checkpoint_is_flushed_as_storage_flushes_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On macOS the system's own flush leaves it in the drive's cache."""
    path, flushed = tmp_path / "periodic.checkpoint", []
    path.write_bytes(b"state")
    monkeypatch.setattr(written, "sync_file", lambda _: flushed.append("file"))
    monkeypatch.setattr(written, "sync_folder", flushed.append)
    written.flush(path)
    assert flushed == ["file", tmp_path]
