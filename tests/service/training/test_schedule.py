from __future__ import annotations

from math import cos, pi

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from service.training.hyperparameters import Hyperparameters
from service.training.protocol.messages.training import LoopState
from service.training.schedule import Steps, make_plan


def rates(**wanted: object) -> list[float]:
    plan = make_plan(Hyperparameters(batch_size=1, learning_rate=2.0, **wanted), 100)  # type: ignore[arg-type]
    assert plan.total_steps is not None
    return plan.learning_rates(LoopState(), plan.total_steps)


def test_constant_stays_at_the_peak() -> None:
    assert rates(max_steps=5) == [2.0] * 5


def test_linear_falls_from_the_peak_to_zero_after_the_last_step() -> None:
    assert rates(max_steps=4, schedule="linear") == pytest.approx([2.0, 1.5, 1.0, 0.5])


def test_cosine_is_half_a_wave() -> None:
    expected = [1.0 + cos(pi * step / 8) for step in range(8)]
    assert rates(max_steps=8, schedule="cosine") == pytest.approx(expected)


def test_warm_up_rises_linearly_to_the_peak_and_no_step_is_at_zero() -> None:
    wanted = rates(max_steps=8, warmup_steps=4, schedule="linear")
    assert wanted == pytest.approx([0.4, 0.8, 1.2, 1.6, 2.0, 1.5, 1.0, 0.5])


@given(
    schedule=st.sampled_from(["constant", "linear", "cosine"]),
    warmup_steps=st.integers(0, 50),
    max_steps=st.integers(1, 50),
)
def test_no_schedule_leaves_the_range_from_zero_to_the_peak(
    schedule: str, warmup_steps: int, max_steps: int
) -> None:
    for rate in rates(max_steps=max_steps, warmup_steps=warmup_steps, schedule=schedule):
        assert 0.0 < rate <= 2.0


def test_where_time_alone_ends_a_job_the_decay_runs_with_time() -> None:
    plan = make_plan(Hyperparameters(max_seconds=10, learning_rate=1.0, schedule="linear"), 100)
    assert plan.total_steps is None
    assert plan.learning_rates(LoopState(step=7, seconds=2.5), 1) == pytest.approx([0.75])
    assert plan.learning_rates(LoopState(step=7, seconds=99.0), 2) == [0.0, 0.0]


@pytest.mark.parametrize(
    ("wanted", "epochs", "total_steps"),
    [
        ({}, 5, 20),
        ({"epochs": 2}, 2, 8),
        ({"epochs": 2, "max_steps": 5}, 2, 5),
        ({"epochs": 2, "max_steps": 50}, 2, 8),
        ({"max_steps": 50}, None, 50),
        ({"max_seconds": 9.0}, None, None),
        ({"max_seconds": 9.0, "epochs": 1}, 1, 4),
        ({"epochs": 2, "accumulation_steps": 3}, 2, 4),
    ],
)
def test_steps_follow_from_samples_and_batches(
    wanted: dict[str, int], epochs: int | None, total_steps: int | None
) -> None:
    plan = make_plan(Hyperparameters(batch_size=32, **wanted), 100)  # type: ignore[arg-type]
    assert (plan.epochs, plan.total_steps) == (epochs, total_steps)


def test_whatever_is_met_first_ends_a_job() -> None:
    wanted = Hyperparameters(epochs=1, max_seconds=10.0, early_stopping_patience=2, batch_size=10)
    plan = make_plan(wanted, 100)
    start = LoopState()
    assert plan.ending(start) is None
    assert plan.ending(replace(start, step=10)) == "finished"
    assert plan.ending(replace(start, seconds=10.0)) == "out_of_time"
    assert plan.ending(replace(start, stale_epochs=2)) == "early_stopped"


def test_an_epoch_begins_with_a_fresh_loss_and_ends_with_its_last_step() -> None:
    plan = make_plan(Hyperparameters(epochs=2, batch_size=60), 100)
    state = LoopState()
    for expected in (False, True):
        state = plan.after_steps(state, Steps([3.0], 2, [0.1]), seconds=1.0)
        assert plan.epoch_is_complete(state) is expected
    assert (state.loss_sum, state.loss_count) == (6.0, 4)
    state = plan.after_steps(replace(state, epoch=1), Steps([1.0], 2, [0.1]), seconds=2.0)
    assert (state.step, state.loss_sum, state.loss_count) == (3, 1.0, 2)
    assert plan.step_in_epoch(state) == 1
