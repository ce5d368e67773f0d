"""A model trains on as many threads as are worth it, and on the same number ever after."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from msgspec.structs import replace

from service.training import thread_selection as choice
from service.training.data.batches import Dataset
from service.training.data.datasets import Datasets
from service.training.engine import Engine
from service.training.protocol.messages.shared import Artifacts, ResourceLimits
from service.training.protocol.messages.training import Train
from service.training.thread_selection import (
    FILE,
    ROUNDS,
    ThreadChoice,
    choices,
    choose,
    select_threads,
)
from storage.records.signatures import Signature


def test_the_choices_are_one_thread_powers_of_two_and_the_limit() -> None:
    assert choices(2) == [ThreadChoice(1), ThreadChoice(2), ThreadChoice(2, spinning=True)]
    counts = [choice.threads for choice in choices(6) if not choice.spinning]
    assert counts == [1, 2, 4, 6]


@pytest.mark.parametrize(
    ("one", "two", "spinning", "chosen"),
    [
        (3.0, 2.0, 2.0, ThreadChoice(2)),
        (42.0, 51.0, 50.0, ThreadChoice(1)),
        (3.0, 2.9, 2.8, ThreadChoice(1)),
        (3.0, 2.0, 1.99, ThreadChoice(2, spinning=True)),
        (3.0, 3.5, 2.0, ThreadChoice(2, spinning=True)),
    ],
)
def test_a_dearer_choice_must_be_clearly_faster(
    one: float, two: float, spinning: float, chosen: ThreadChoice
) -> None:
    measured = {
        ThreadChoice(2, spinning=True): spinning,
        ThreadChoice(2): two,
        ThreadChoice(1): one,
    }
    assert choose([measured]) == chosen


def test_choices_are_compared_within_a_round() -> None:
    """The machine was busy for half of the time: over all, one thread looks like the quickest."""
    quiet = {ThreadChoice(1): 3.0, ThreadChoice(2): 2.0, ThreadChoice(2, spinning=True): 2.1}
    busy = {each: 5 * seconds for each, seconds in quiet.items()}
    odd = {**quiet, ThreadChoice(2): 9.0}
    assert choose([quiet, busy, odd, busy]) == ThreadChoice(2)


@pytest.fixture
def task(make_artifacts: Callable[..., Artifacts], make_workshop: Any, tmp_path: Path) -> Train:
    made: Train = make_workshop().task(make_artifacts())
    return replace(made, cache=str(tmp_path / "cache"), limits=ResourceLimits(threads=2))


@pytest.fixture
def datasets(
    make_dataset: Callable[..., Dataset], classification: Signature, samples: Any
) -> Datasets:
    x, labels = samples(40, target=classification.target)
    dataset = make_dataset((x,), labels, classification)
    return Datasets((dataset, dataset), dataset, dataset)


def forbidden(_: ThreadChoice) -> Engine:
    raise AssertionError("measured again")


def idle(opened: list[ThreadChoice]) -> Callable[[ThreadChoice], Engine]:
    """Engines whose steps take no time, and who has opened which."""

    def open_engine(choice: ThreadChoice) -> Engine:
        opened.append(choice)
        steps = SimpleNamespace(train_batch=lambda *_: 0.0, step=lambda _: None)
        return cast(Engine, steps)

    return open_engine


def test_the_choice_is_measured_once_for_a_model(task: Train, datasets: Datasets) -> None:
    opened: list[ThreadChoice] = []
    first = select_threads(task, datasets, idle(opened), tick=lambda: None)
    assert opened == choices(2) * ROUNDS
    assert select_threads(task, datasets, forbidden, tick=lambda: None) == first


def test_a_model_that_opens_slowly_is_measured_once(
    task: Train, datasets: Datasets, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choice, "BUDGET_S", 0.0)
    opened: list[ThreadChoice] = []
    select_threads(task, datasets, idle(opened), tick=lambda: None)
    assert opened == choices(2)


def test_another_limit_or_batch_size_is_measured_anew(task: Train, datasets: Datasets) -> None:
    select_threads(task, datasets, idle([]), tick=lambda: None)
    for other in (
        replace(task, limits=ResourceLimits(threads=3)),
        replace(task, hyperparameters=replace(task.hyperparameters, batch_size=8)),
    ):
        opened: list[ThreadChoice] = []
        select_threads(other, datasets, idle(opened), tick=lambda: None)
        assert opened
    select_threads(task, datasets, forbidden, tick=lambda: None)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"key": {"threads": 2, "more": 1}}'])
def test_a_choice_that_cannot_be_read_is_made_again(
    content: str, task: Train, datasets: Datasets
) -> None:
    file = Path(task.cache or "") / FILE
    file.parent.mkdir()
    file.write_text(content)
    select_threads(task, datasets, idle([]), tick=lambda: None)
    assert len(json.loads(file.read_text())) == 1


def test_one_thread_needs_no_measurement(task: Train, datasets: Datasets) -> None:
    alone = replace(task, limits=ResourceLimits(threads=1))
    assert select_threads(alone, datasets, forbidden, tick=lambda: None) == ThreadChoice(1)


def test_a_job_records_the_threads_that_it_chose(task: Train, train: Any) -> None:
    done, child = train(replace(task, limits=ResourceLimits(threads=2, nice=0)))
    remembered = json.loads((Path(task.cache or "") / FILE).read_text())
    (chosen,) = remembered.values()
    assert done.provenance["threads"] == chosen["threads"]
    assert np.isfinite(done.train_loss)
    assert any(getattr(said, "threads", None) == chosen["threads"] for said in child.said)
