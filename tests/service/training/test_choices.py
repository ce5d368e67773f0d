"""What a job chooses for itself, from its samples and by a few steps of the real engine."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from msgspec.structs import replace
from step_models import perceptron
from workshop import CLASSES, make_samples

from service.training.choices import balanced, choose
from service.training.data.batches import Dataset
from service.training.data.datasets import Datasets
from service.training.engine import Engine
from service.training.engines.opening import open_engine
from service.training.engines.sessions.engine import SessionsEngine
from service.training.hyperparameters import CHOSEN, Hyperparameters
from service.training.preparation.step_models import make_step_models
from service.training.protocol.messages.preparation import Prepare
from service.training.protocol.messages.training import Chosen, Start, Train
from service.training.start import prepare_task
from storage.records.signatures import Signature

Ask = Callable[..., Chosen]
Load = Callable[..., Datasets]


@pytest.fixture
def hidden() -> int:
    return 8


@pytest.fixture
def task(tmp_path: Path, classification: Signature, hidden: int) -> Train:
    """Of a perceptron in the engine of sessions, with everything left open."""
    source = tmp_path / "model.onnx"
    onnx.save(perceptron(hidden=hidden), source)
    prepare = Prepare(str(source), "forward", str(tmp_path), loss="cross_entropy")
    artifacts = make_step_models(source, prepare).artifacts
    paths = {"database": "", "packs": "", "work_dir": str(tmp_path)}
    return Train(
        artifacts=artifacts,
        signature=classification,
        loss="cross_entropy",
        output="logits",
        model_id=1,
        watermark=0,
        hyperparameters=Hyperparameters(seed=3),
        start=None,  # type: ignore[arg-type]  # nobody reads where it starts
        to_choose=CHOSEN,
        **paths,
    )


@pytest.fixture
def load(make_dataset: Callable[..., Dataset], classification: Signature) -> Load:
    """Samples of these labels, drawn if none are given."""

    def make(
        train: int = 100, validation: int = 10, *, labels: Any = None, base: int = 0
    ) -> Datasets:
        def dataset(size: int, own: Any) -> Dataset:
            x, drawn = make_samples(size, target=classification.target)
            return make_dataset((x,), drawn if own is None else own, classification)

        sets = dataset(train, labels), dataset(validation, None)
        return Datasets(sets, *sets, base=np.arange(base))

    return make


@pytest.fixture
def ask(task: Train, load: Load) -> Ask:
    """What a job chooses for such samples."""

    def carry_out(*sizes: int, labels: Any = None, base: int = 0, **task_: Any) -> Chosen:
        wanted = replace(task, **task_)
        return choose(wanted, load(*sizes, labels=labels, base=base), _open, tick=lambda: None)

    return carry_out


def _open(task: Train) -> Engine:
    wanted = task.hyperparameters
    return open_engine(
        task.artifacts,
        output=task.output,
        threads=1,
        optimizer_options=wanted.optimizer_options,
        loss_options=wanted.loss_options,
    )


def test_few_samples_are_passed_forty_times_in_small_batches(ask: Ask) -> None:
    chosen = ask(100, 10)
    assert chosen.values["batch_size"] == 16
    assert chosen.values["epochs"] == 40
    assert chosen.values["schedule"] == "cosine"
    assert chosen.values.keys() == chosen.reasons.keys()


def test_many_samples_are_passed_fewer_times(ask: Ask) -> None:
    values = ask(16_000, 10).values
    assert (values["batch_size"], values["epochs"]) == (32, 8)


def test_only_enough_validation_samples_tell_when_to_stop(ask: Ask) -> None:
    assert "early_stopping_patience" not in ask(100, 49).values
    assert ask(100, 50).values["early_stopping_patience"] == 10


def test_skewed_classes_are_weighted_and_even_ones_are_not(ask: Ask) -> None:
    even = np.repeat(np.arange(CLASSES), 30)
    assert not {"class_weights", "label_smoothing"} & ask(90, labels=even).values.keys()
    skewed = np.repeat(np.arange(CLASSES), [60, 10, 20])
    chosen = ask(90, labels=skewed)
    assert chosen.values["class_weights"] == (0.5, 3.0, 1.5)
    assert chosen.values["label_smoothing"] == 0.015
    assert "three times" in chosen.reasons["class_weights"]


def test_the_plain_validation_loss_does_not_stop_a_weighted_job(ask: Ask) -> None:
    skewed = np.repeat(np.arange(CLASSES), [60, 10, 20])
    assert "early_stopping_patience" not in ask(90, 100, labels=skewed).values


def test_classes_without_samples_weigh_nothing() -> None:
    assert balanced(np.array([6, 0, 2])) == (0.666667, 0.0, 2.0)


def test_what_is_given_stays(ask: Ask) -> None:
    given = Hyperparameters(batch_size=4, epochs=2)
    chosen = ask(100, hyperparameters=given, to_choose=("learning_rate", "schedule"))
    assert chosen.values.keys() == {"learning_rate", "schedule"}
    assert "2" not in chosen.reasons["schedule"]


def test_more_steps_get_a_lower_rate(ask: Ask) -> None:
    few, many = (ask(size).values["learning_rate"] for size in (60, 3000))
    assert few == 0.0047
    assert many == 0.0004


@pytest.mark.parametrize("hidden", [4096])
def test_a_model_that_diverges_early_gets_a_rate_well_below(ask: Ask) -> None:
    """A wide layer: that it is, only trying tells."""
    chosen = ask(60)
    assert chosen.values["learning_rate"] < 0.003
    assert "in a test" in chosen.reasons["learning_rate"]
    assert ask(60) == chosen


@pytest.mark.parametrize(("optimizer", "most"), [("sgd", 0.1), ("lion", 0.002), ("rmsprop", 0.01)])
def test_each_optimizer_has_bounds_of_its_own(ask: Ask, optimizer: Any, most: float) -> None:
    rate = ask(60, hyperparameters=Hyperparameters(optimizer=optimizer)).values["learning_rate"]
    assert most / 50 < rate <= most


def test_the_engine_of_the_test_is_gone_before_the_job_opens_its_own(
    task: Train, load: Load
) -> None:
    def engines() -> int:
        return sum(isinstance(each, SessionsEngine) for each in gc.get_objects())

    gc.collect()
    before, sent = engines(), []
    pipe: Any = SimpleNamespace(send=sent.append)
    begun = replace(task, start=Start())
    prepare_task(begun, load(), pipe, tick=lambda: None)
    assert len(sent) == 1
    assert engines() == before


def test_a_base_set_has_a_share_that_does_not_repeat_it_more_than_twice(ask: Ask) -> None:
    shares = {base: ask(200, base=base).values["replay"] for base in (10, 40, 100, 180)}
    assert shares == {10: 0.095, 40: 0.333, 100: 0.5, 180: 0.833}
    reason = ask(200, base=40).reasons["replay"]
    assert reason == "keeps what the base set tells: 40 samples beside 160 others"
    assert "replay" not in ask(200).values


def test_a_class_that_the_base_set_lacks_has_more_of_it_replayed(ask: Ask) -> None:
    def share(own: int, label: int) -> Chosen:
        labels = np.concatenate([np.arange(500) % 2, np.full(own, label)])
        return ask(500 + own, base=500, labels=labels)

    known, new = share(20, 1), share(20, 2)
    assert (known.values["replay"], new.values["replay"]) == (0.833, 0.95)
    assert new.reasons["replay"].endswith("beside 20 others, with a class that it lacks")
    assert new.reasons["batch_size"] == "for 400 training samples"
    assert [share(own, 2).values["replay"] for own in (100, 1000)] == [0.8, 0.4]


def test_the_course_counts_what_is_replayed(ask: Ask) -> None:
    chosen = ask(200, base=100)
    assert chosen.reasons["batch_size"] == "for 200 training samples"
    assert chosen.reasons["epochs"].startswith("520 steps on batches of 16")


@pytest.mark.parametrize(
    ("base", "own", "weights"),
    [
        ((20, 20, 20), (40, 5, 15), (0.5, 4.0, 1.333)),
        ((20, 20, 20), (0, 1, 59), None),
        ((2, 29, 29), (0, 30, 30), (16.0, 0.681, 0.681)),
    ],
    ids=["new samples alone where all classes have some", "one that strayed", "never by nothing"],
)
def test_classes_beside_a_base_set_are_weighed(
    ask: Ask, base: Any, own: Any, weights: tuple[float, ...] | None
) -> None:
    labels = [np.repeat(np.arange(CLASSES), each) for each in (base, own)]
    chosen = ask(120, base=60, labels=np.concatenate(labels)).values
    assert chosen.get("class_weights") == (weights and pytest.approx(weights, abs=1e-3))


def test_a_share_that_was_given_stays(ask: Ask, task: Train) -> None:
    wanted = replace(task.hyperparameters, replay=0.2)
    left = tuple(name for name in CHOSEN if name != "replay")
    chosen = ask(200, base=100, hyperparameters=wanted, to_choose=left)
    assert "replay" not in chosen.values
    assert chosen.reasons["batch_size"] == "for 125 training samples"
