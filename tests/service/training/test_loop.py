"""The loop with the real engine, in this process, with a clock that the tests move."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from loop_bench import MakeBench
from msgspec.structs import replace

from service.training.data.batches import Dataset
from service.training.data.sampler import epoch_order
from service.training.errors import CheckpointUnreadable, LossNotFinite
from service.training.loop import step_seed
from service.training.protocol.messages.training import LoopState, Measured, Saved, Start
from service.training.protocol.messages.unions import Message
from service.training.protocol.pipe import Interrupted


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
        yield tuple(value.copy() for value in inputs)


def test_the_schedule_reaches_the_optimizer(make_bench: MakeBench) -> None:
    bench = make_bench(max_steps=10, schedule="linear", warmup_steps=2, learning_rate=0.3)
    bench.train()
    expected = bench.plan.learning_rates(LoopState(), 10)
    assert bench.engine.rates == expected


def test_accumulation_takes_several_batches_a_step(make_bench: MakeBench) -> None:
    bench = make_bench(epochs=1, accumulation_steps=3)
    assert bench.train().step == 3
    sizes = [[len(each) for each in step] for step in bench.engine.batches[:-1]]
    assert sizes == [[16, 16, 16], [16, 16, 16], [4]]


KINDS: list[dict[str, Any]] = [
    {"epochs": 3},
    {"optimizer": "sgd", "epochs": 3, "accumulation_steps": 2, "schedule": "cosine"},
    {"dropout": True, "epochs": 3, "warmup_steps": 4, "schedule": "linear"},
    {"epochs": 9, "early_stopping_patience": 1, "learning_rate": 0.3},
    {"epochs": 3, "replay": 0.4},
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


def test_without_validation_samples_early_stopping_is_off(make_bench: MakeBench) -> None:
    bench = make_bench(epochs=2, early_stopping_patience=1, validation=0)
    done = bench.finish(bench.train())
    assert (done.reason, done.validation) == ("finished", {})


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
    bench = make_bench(optimizer="sgd", epochs=50, learning_rate=1e30)
    with pytest.raises(LossNotFinite, match=r"at step \d+ .*try a lower learning_rate"):
        bench.train()
    assert len(bench.engine.rates) == len(bench.engine.seeds) - 1
