"""What the loop says of itself: the curve, the progress, the pace."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np
import pytest
from loop_bench import MakeBench

from service.training.protocol.messages.training import Measured, Progress, Saved
from service.training.protocol.messages.unions import Message
from service.training.reporting import CURVE_POINTS, PROGRESS_INTERVAL_S


@pytest.mark.parametrize("max_steps", [3, 150, 1000])
def test_the_curve_has_some_two_hundred_points_one_a_step(
    make_bench: MakeBench, max_steps: int
) -> None:
    bench = make_bench(max_steps=max_steps, validation=0)
    bench.finish(bench.train())
    points = bench.ear.of(Measured)
    steps = [point.step for point in points]
    assert steps == sorted(set(steps))
    assert (steps[0], steps[-1]) == (1, max_steps)
    ends_of_epochs = max_steps // 7
    assert min(max_steps, CURVE_POINTS) <= len(steps) <= CURVE_POINTS + ends_of_epochs + 2
    assert all(set(point.values) == {"train_loss", "learning_rate"} for point in points)


def test_the_points_up_to_a_checkpoint_are_sent_before_it(make_bench: MakeBench) -> None:
    bench = make_bench(max_steps=20, clock_step_s=0.01, interval_s=0.05, validation=0)
    bench.finish(bench.train())
    sent: list[int] = []
    for message in bench.ear.heard:
        if isinstance(message, Measured):
            sent.append(message.step)
        if isinstance(message, Saved):
            # The point of an epoch's last step comes with its validation.
            assert sent == [step for step in range(1, message.state.step + 1) if step in sent]
            assert sent[-1] >= message.state.step - 1
    assert sent == list(range(1, 21))


def test_time_that_is_no_training_does_not_lower_the_samples_a_second(
    make_bench: MakeBench,
) -> None:
    bench = make_bench(epochs=3, clock_step_s=0.01, interval_s=0.05)
    evaluate = bench.engine.engine.evaluate

    def slow(*arguments: Any) -> Any:
        bench.clock.now += 60.0
        return evaluate(*arguments)

    bench.engine.evaluate = slow  # type: ignore[attr-defined]
    bench.finish(bench.train())
    last = bench.ear.of(Progress)[-1]
    # 16 samples in some steps of 0.01 s and a few looks at the clock.
    assert 16 / 0.05 < last.samples_per_second < 16 / 0.009


def test_validation_joins_the_curve_at_the_end_of_each_epoch(make_bench: MakeBench) -> None:
    bench = make_bench(epochs=2)
    done = bench.finish(bench.train())
    points = [each for each in bench.ear.of(Measured) if "validation_loss" in each.values]
    assert [(point.step, point.epoch) for point in points] == [(7, 0), (14, 1)]
    assert set(points[0].values) == {
        "train_loss",
        "learning_rate",
        "validation_loss",
        "validation_accuracy",
        "validation_balanced_accuracy",
        "validation_macro_f1",
        "validation_mean_iou",
        "validation_calibration_error",
    }
    assert points[-1].values["validation_loss"] == done.validation["loss"]
    assert done.validation["samples"] == 40
    assert np.sum(done.validation["confusion_matrix"]) == 40


def test_progress_comes_at_most_twice_a_second_even_while_validating(
    make_bench: MakeBench,
) -> None:
    bench = make_bench(epochs=3, clock_step_s=0.1)
    times: list[float] = []
    send = bench.watch.reporter._send

    def timed(message: Message) -> None:
        send(message)
        if isinstance(message, Progress):
            times.append(bench.clock.now)

    bench.watch.reporter._send = timed
    bench.train()
    gaps = np.diff(times)
    assert len(gaps) > 3
    assert gaps.min() >= PROGRESS_INTERVAL_S
    assert gaps.max() < 2.0
    progress = bench.ear.of(Progress)
    assert all(0 < each.samples_per_second < inf for each in progress[1:])
    assert [each.step for each in progress] == sorted(each.step for each in progress)


def test_the_time_left_follows_from_the_pace(make_bench: MakeBench) -> None:
    bench = make_bench(max_steps=100, clock_step_s=0.25, validation=0)
    bench.train()
    last = bench.ear.of(Progress)[-1]
    assert last.eta_seconds == pytest.approx((100 - last.step) * 0.3, rel=0.5)
