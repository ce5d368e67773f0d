"""The loop with the real engine, in this process, with a clock that the tests move."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from service.training.data import Dataset, epoch_order
from service.training.errors import CheckpointUnreadable, LossNotFinite
from service.training.job import finish
from service.training.loop import step_seed, train
from service.training.material import Material
from service.training.messages import (
    Artifacts,
    Hyperparameters,
    Limits,
    LoopState,
    Measured,
    Message,
    Progress,
    Saved,
    Start,
    Train,
)
from service.training.ort_engine import OrtEngine
from service.training.pipe import Interrupted
from service.training.report import CURVE_POINTS, PROGRESS_INTERVAL_S
from service.training.schedule import Plan, make_plan
from service.training.watch import JobWatch
from storage.records import Signature

MakeArtifacts = Callable[..., Artifacts]


class Ear:
    """The parent's side of the pipe, in memory."""

    def __init__(self) -> None:
        self.heard: list[Any] = []
        self.stop: str | None = None
        self.held = False
        self.stop_at: tuple[type, int] | None = None

    def send(self, message: Message) -> None:
        self.heard.append(message)

    def of(self, kind: type) -> list[Any]:
        return [message for message in self.heard if isinstance(message, kind)]


class Clock:
    """Time that passes by `step_s` at every look."""

    def __init__(self, step_s: float) -> None:
        self.now = 100.0
        self.step_s = step_s

    def __call__(self) -> float:
        self.now += self.step_s
        return self.now


class Recorder:
    """The real engine, and a record of what the loop asked of it."""

    def __init__(self, engine: OrtEngine) -> None:
        self.engine = engine
        self.seeds: list[int] = []
        self.rates: list[float] = []
        self.batches: list[list[Any]] = [[]]

    def train_batch(self, inputs: Any, target: Any) -> float:
        self.batches[-1].append(np.concatenate([each.copy() for each in inputs]))
        return self.engine.train_batch(inputs, target)

    def step(self, learning_rate: float) -> None:
        self.rates.append(learning_rate)
        self.batches.append([])
        self.engine.step(learning_rate)

    def seed(self, seed: int) -> None:
        self.seeds.append(seed)
        self.engine.seed(seed)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)


class Bench:
    """One job's parts, set up as `job.run` does."""

    def __init__(
        self,
        artifacts: Artifacts,
        signature: Signature,
        sets: tuple[Dataset, Dataset],
        work_dir: Path,
        *,
        start: Start | None = None,
        clock_step_s: float = 0.0,
        loss: str = "cross_entropy",
        interval_s: float = 1e9,
        **wanted: Any,
    ) -> None:
        self.sets = sets
        self.order = Train(
            artifacts=artifacts,
            signature=signature,
            loss=loss,
            output="logits",
            database="",
            packs="",
            model_id=1,
            watermark=1,
            hyperparameters=Hyperparameters(**{"batch_size": 16, "learning_rate": 0.01, **wanted}),
            start=start or Start(),
            work_dir=str(work_dir),
            checkpoint_interval_s=interval_s,
            limits=Limits(threads=1, nice=0),
        )
        begin = self.order.start
        checkpoint = Path(begin.checkpoint or artifacts.checkpoint)
        self.engine = Recorder(
            OrtEngine(artifacts, checkpoint=checkpoint, output="logits", threads=1)
        )
        self.state = begin.state or LoopState()
        self.plan: Plan = make_plan(self.order.hyperparameters, len(sets[0]))
        self.ear = Ear()
        self.clock = Clock(clock_step_s)
        self.watch = JobWatch(
            self.order,
            self.ear,  # type: ignore[arg-type]
            self.engine,
            sets[1],
            plan=self.plan,
            state=self.state,
            clock=self.clock,
        )

    def train(self) -> LoopState:
        return train(
            self.engine,
            self.sets[0],
            self.plan,
            self.watch,
            state=self.state,
            seconds=self.watch.seconds,
        )

    def finish(self, state: LoopState) -> Any:
        material = Material(self.sets, *self.sets)
        return finish(self.order, self.engine, self.watch, material, plan=self.plan, state=state)


MakeBench = Callable[..., Bench]


@pytest.fixture
def make_bench(
    make_artifacts: MakeArtifacts,
    make_dataset: Callable[..., Dataset],
    classification: Signature,
    samples: Callable[..., tuple[Any, Any]],
    tmp_path: Path,
) -> MakeBench:
    x, labels = samples(140, target=classification.target)

    def make(*, kind: dict[str, Any] | None = None, validation: int = 40, **wanted: Any) -> Bench:
        last = 100 + validation
        sets = tuple(
            make_dataset((x[part],), labels[part], classification)
            for part in (slice(0, 100), slice(100, last))
        )
        return Bench(make_artifacts(**(kind or {})), classification, sets, tmp_path, **wanted)  # type: ignore[arg-type]

    return make


def test_every_sample_is_seen_once_an_epoch_in_the_seeds_order(make_bench: MakeBench) -> None:
    bench = make_bench(epochs=2, seed=11)
    state = bench.train()
    assert (state.step, state.epoch) == (14, 2)
    x = np.concatenate([inputs for (inputs,) in _all(bench.sets[0])])
    seen = np.concatenate([each for step in bench.engine.batches for each in step])
    order = np.concatenate([epoch_order(100, seed=11, epoch=epoch) for epoch in (0, 1)])
    np.testing.assert_array_equal(seen, x[order])
    assert bench.engine.seeds == [step_seed(11, step) for step in range(14)]


def _all(dataset: Dataset) -> Iterator[tuple[Any, ...]]:
    for inputs, _ in dataset.batches(np.arange(len(dataset)), batch_size=9):
        yield tuple(each.copy() for each in inputs)


def test_the_schedule_reaches_the_optimizer(make_bench: MakeBench) -> None:
    bench = make_bench(max_steps=10, schedule="linear", warmup_steps=2, learning_rate=0.3)
    bench.train()
    expected = [bench.plan.learning_rate(LoopState(step=step)) for step in range(10)]
    assert bench.engine.rates == expected


def test_accumulation_takes_several_batches_a_step(make_bench: MakeBench) -> None:
    bench = make_bench(epochs=1, accumulation_steps=3)
    assert bench.train().step == 3
    sizes = [[len(each) for each in step] for step in bench.engine.batches[:-1]]
    assert sizes == [[16, 16, 16], [16, 16, 16], [4]]


KINDS: list[dict[str, Any]] = [
    {"epochs": 3},
    {"kind": {"optimizer": "SGD"}, "epochs": 3, "accumulation_steps": 2, "schedule": "cosine"},
    {"kind": {"dropout": True}, "epochs": 3, "warmup_steps": 4, "schedule": "linear"},
    {"epochs": 9, "early_stopping_patience": 1, "learning_rate": 0.3},
    {"max_steps": 17, "early_stopping_patience": 2, "learning_rate": 0.1},
]


@pytest.mark.parametrize("wanted", KINDS, ids=str)
def test_a_job_cut_at_any_step_ends_with_the_same_bytes(
    make_bench: MakeBench, wanted: dict[str, Any]
) -> None:
    straight = make_bench(**wanted)
    end = straight.train()
    done = straight.finish(end)
    expected = Path(done.path).read_bytes()

    whole = make_bench(**wanted, clock_step_s=1.0, interval_s=0.5)
    whole.finish(whole.train())
    saved = whole.ear.of(Saved)
    assert len(saved) > end.step
    for number, checkpoint in enumerate(saved[:: max(1, len(saved) // 6)] + saved[-1:]):
        best = [each for each in saved if each.role == "best"]
        best = [each for each in best if each.state.step <= checkpoint.state.step]
        start = Start(
            how="resume",
            checkpoint=checkpoint.path,
            state=checkpoint.state,
            best_checkpoint=best[-1].path if best else None,
        )
        resumed = make_bench(**wanted, start=start)
        again = resumed.finish(resumed.train())
        assert Path(again.path).read_bytes() == expected, (number, checkpoint)
        for name in ("step", "epoch", "train_loss", "validation", "reason"):
            assert getattr(again, name) == getattr(done, name)


def test_a_pause_in_the_middle_of_validation_resumes_with_the_validation(
    make_bench: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    straight = make_bench(epochs=2)
    expected = straight.finish(straight.train())

    bench = make_bench(epochs=2)
    evaluate, seen = bench.engine.engine.evaluate, count()

    def pause_at_the_second(*arguments: Any) -> Any:
        if next(seen) == 1:
            bench.ear.stop = "paused"
        return evaluate(*arguments)

    bench.engine.evaluate = pause_at_the_second  # type: ignore[attr-defined]
    with pytest.raises(Interrupted, match="paused"):
        bench.train()
    (saved,) = bench.ear.of(Saved)
    assert (saved.state.step, saved.state.epoch) == (7, 0)
    assert bench.plan.epoch_is_complete(saved.state)

    start = Start(how="resume", checkpoint=saved.path, state=saved.state)
    resumed = make_bench(epochs=2, start=start)
    done = resumed.finish(resumed.train())
    assert Path(done.path).read_bytes() == Path(expected.path).read_bytes()
    assert [each.step for each in resumed.ear.of(Measured) if "validation_loss" in each.values] == [
        7,
        14,
    ]


def test_cancelling_saves_nothing(make_bench: MakeBench) -> None:
    for reason in ("cancelled", "orphaned"):
        bench = make_bench(epochs=2)
        bench.ear.stop = reason
        with pytest.raises(Interrupted, match=reason):
            bench.train()
        assert bench.ear.of(Saved) == []
        assert len(bench.engine.rates) == 1


def test_early_stopping_exports_the_best_parameters(make_bench: MakeBench) -> None:
    bench = make_bench(epochs=60, early_stopping_patience=2, learning_rate=0.5)
    state = bench.train()
    done = bench.finish(state)
    assert done.reason == "early_stopped"
    losses = [
        each.values["validation_loss"]
        for each in bench.ear.of(Measured)
        if "validation_loss" in each.values
    ]
    best = int(np.argmin(losses))
    assert len(losses) == best + 3
    assert done.validation["loss"] == state.best_loss == min(losses)
    roles = [each.role for each in bench.ear.of(Saved)]
    assert roles[-1] == "final"
    assert set(roles[:-1]) == {"best"}
    # The final checkpoint holds what was exported, so that a new job can start from it.
    final = make_bench(start=Start(how="resume", checkpoint=bench.ear.of(Saved)[-1].path))
    assert final.watch.validate(state)["loss"] == min(losses)


def test_the_parent_may_take_every_saved_file_away(make_bench: MakeBench) -> None:
    bench = make_bench(epochs=6, early_stopping_patience=1)
    hear = bench.ear.send

    def take(message: Message) -> None:
        hear(message)
        if isinstance(message, Saved):
            Path(message.path).unlink()

    for part in (bench.watch.saver, bench.watch.reporter):
        part._send = take
    bench.finish(bench.train())
    assert bench.ear.of(Saved)[0].role == "best"


def test_a_resumed_job_whose_best_checkpoint_is_gone_says_so(make_bench: MakeBench) -> None:
    bench = make_bench(epochs=4)
    bench.finish(bench.train())
    start = Start(
        how="resume", checkpoint=bench.ear.of(Saved)[-1].path, state=LoopState(best_loss=0.5)
    )
    with pytest.raises(CheckpointUnreadable, match="best checkpoint is gone"):
        make_bench(epochs=4, early_stopping_patience=1, start=start)


def test_without_validation_samples_early_stopping_is_off_and_said_to_be(
    make_bench: MakeBench, caplog: pytest.LogCaptureFixture
) -> None:
    bench = make_bench(epochs=2, early_stopping_patience=1, validation=0)
    done = bench.finish(bench.train())
    assert (done.reason, done.validation) == ("finished", {})
    assert "early_stopping_off" in caplog.text


def test_time_ends_a_job(make_bench: MakeBench) -> None:
    bench = make_bench(max_seconds=5.0, clock_step_s=1.0)
    state = bench.train()
    assert bench.plan.ending(state) == "out_of_time"
    assert 0 < state.step <= 5


def test_time_spent_before_a_pause_counts(make_bench: MakeBench) -> None:
    bench = make_bench(max_seconds=1e3)
    bench.ear.stop = "paused"
    with pytest.raises(Interrupted):
        bench.train()
    (saved,) = bench.ear.of(Saved)
    state = replace(saved.state, seconds=999.5)
    start = Start(how="resume", checkpoint=saved.path, state=state)
    resumed = make_bench(max_seconds=1e3, start=start, clock_step_s=1.0)
    assert resumed.train().step == saved.state.step + 1


def test_a_loss_that_is_not_finite_ends_the_job_before_it_reaches_the_parameters(
    make_bench: MakeBench,
) -> None:
    bench = make_bench(kind={"optimizer": "SGD"}, epochs=50, learning_rate=1e30)
    with pytest.raises(LossNotFinite, match=r"at step \d+ .*try a lower learning_rate"):
        bench.train()
    assert len(bench.engine.rates) == len(bench.engine.seeds) - 1


@pytest.mark.parametrize("max_steps", [3, 150, 1000])
def test_the_curve_has_some_two_hundred_points_one_a_step(
    make_bench: MakeBench, max_steps: int
) -> None:
    bench = make_bench(max_steps=max_steps, validation=0)
    bench.finish(bench.train())
    points = bench.ear.of(Measured)
    steps = [each.step for each in points]
    assert steps == sorted(set(steps))
    assert (steps[0], steps[-1]) == (1, max_steps)
    ends_of_epochs = max_steps // 7
    assert min(max_steps, CURVE_POINTS) <= len(steps) <= CURVE_POINTS + ends_of_epochs + 2
    assert all(set(each.values) == {"train_loss", "learning_rate"} for each in points)


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
    assert [(each.step, each.epoch) for each in points] == [(7, 0), (14, 1)]
    assert set(points[0].values) == {
        "train_loss",
        "learning_rate",
        "validation_loss",
        "validation_accuracy",
        "validation_macro_f1",
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
