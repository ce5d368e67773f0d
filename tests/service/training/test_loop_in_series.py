"""Steps in series: several in one call of the engine, with the results of steps one by one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from loop_bench import Bench, MakeBench
from msgspec.structs import replace

from service.training.engine import Array
from service.training.errors import LossNotFinite
from service.training.protocol.messages.training import Measured, Saved, Start
from service.training.protocol.pipe import Interrupted

MakeSeries = Callable[..., Bench]


@pytest.fixture
def make(make_bench: MakeBench) -> MakeSeries:
    return lambda **wanted: make_bench(**{"in_series": True, **wanted})


def curve(bench: Bench) -> list[Measured]:
    points: list[Measured] = bench.ear.of(Measured)
    return points


@pytest.mark.parametrize(
    "wanted",
    [
        {"epochs": 3},
        {"epochs": 3, "schedule": "cosine", "warmup_steps": 5},
        {"max_steps": 17, "batch_size": 10},
        {"max_steps": 500, "batch_size": 2},
        {"epochs": 2, "batch_size": 60},
        {"epochs": 9, "early_stopping_patience": 1, "learning_rate": 0.3},
        {"epochs": 2, "accumulation_steps": 2},
        {"epochs": 3, "sampling": "balanced"},
    ],
    ids=str,
)
def test_a_job_ends_with_the_bytes_and_the_curve_of_one_step_by_step(
    make: MakeSeries, wanted: dict[str, Any]
) -> None:
    series, steps = make(**wanted), make(**wanted, in_series=False)
    ends = [each.train() for each in (series, steps)]
    assert replace(ends[0], seconds=0) == replace(ends[1], seconds=0)
    assert curve(series) == curve(steps)
    paths = [each.finish(end).path for each, end in zip((series, steps), ends, strict=True)]
    assert Path(paths[0]).read_bytes() == Path(paths[1]).read_bytes()


def test_the_batches_that_are_not_full_are_stepped_on_by_themselves(make: MakeSeries) -> None:
    bench = make(epochs=2)  # of 100 samples in batches of 16
    assert bench.train().step == 14
    assert [[len(each) for each in step] for step in bench.engine.batches if step] == [[4], [4]]


def test_it_goes_on_from_a_checkpoint_between_two_calls(make: MakeSeries) -> None:
    wanted: dict[str, Any] = {"max_steps": 400, "batch_size": 2, "schedule": "linear"}
    straight = make(**wanted)
    expected = straight.finish(straight.train())

    cut = make(**wanted, clock_step_s=1.0, interval_s=0.5)
    cut.finish(cut.train())
    saved = [each for each in cut.ear.of(Saved) if each.role == "periodic"]
    steps = [each.state.step for each in saved]
    assert 10 < len(steps) < 100  # not after each step
    assert any(step % 50 for step in steps)  # nor after each epoch
    for each in saved[1::4]:
        start = Start(how="resume", checkpoint=each.path, state=each.state)
        resumed = make(**wanted, start=start)
        again = resumed.finish(resumed.train())
        assert Path(again.path).read_bytes() == Path(expected.path).read_bytes()
        assert (again.step, again.train_loss) == (expected.step, expected.train_loss)


def test_a_pause_is_heeded_after_the_call(make: MakeSeries) -> None:
    bench = make(epochs=50, batch_size=2)
    bench.ear.stop = "paused"
    with pytest.raises(Interrupted, match="paused"):
        bench.train()
    (saved,) = bench.ear.of(Saved)
    assert 1 < saved.state.step < 50


def test_time_ends_a_job(make: MakeSeries) -> None:
    bench = make(max_seconds=5.0, batch_size=2, clock_step_s=1.0)
    state = bench.train()
    assert bench.plan.ending(state) == "out_of_time"
    assert state.step > 1


def test_a_loss_that_is_not_finite_is_told_with_its_step(make: MakeSeries) -> None:
    told = []
    for in_series in (True, False):
        bench = make(epochs=9, batch_size=4, learning_rate=1e38, in_series=in_series)
        with pytest.raises(LossNotFinite, match=r"at step \d+ \(epoch \d, ") as error:
            bench.train()
        told.append(str(error.value))
    assert told[0] == told[1]


def test_weighted_samples_are_stepped_on_one_by_one(make: MakeSeries) -> None:
    bench = make(epochs=1)
    weights: Array = bench.sets[0].ids.astype("float32")
    bench.sets[0].weights = weights  # type: ignore[assignment]
    bench.train()
    assert len(bench.engine.rates) == 7
