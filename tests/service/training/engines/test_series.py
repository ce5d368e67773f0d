"""Steps in series have the bits of steps one by one, and are taken only where they can be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from step_models import batch, compiled, perceptron

from service.training.engines.manifest import read_manifest
from service.training.engines.sessions.engine import SessionsEngine
from service.training.engines.sessions.series import MOST_STEPS, NUMBERS_AT_ONCE, steps_at_once
from service.training.loss import Loss
from service.training.optimizer.options import LossOptions, OptimizerOptions

ROWS = 8
RATES = (0.1, 0.05, 0.02, 0.02, 0.01)
RECIPES = [
    OptimizerOptions(),
    OptimizerOptions(weight_decay=0.1, max_grad_norm=0.5, ema_decay=0.9),
    OptimizerOptions("sgd", momentum=0.9, l2_sp=0.1),
    OptimizerOptions("lion", max_grad_value=0.01, rate_factors={"w0": 0.1}),
]


def open_engine(
    folder: Path, recipe: OptimizerOptions = RECIPES[0], *, threads: int = 1, **kind: Any
) -> SessionsEngine:
    return SessionsEngine(
        compiled(perceptron(), folder, **kind), optimizer_options=recipe, threads=threads
    )


def rows_of(count: int, *, first: int = 0) -> tuple[list[Any], Any]:
    batches = [batch(first + number, ROWS) for number in range(count)]
    return [np.concatenate([x for (x,), _ in batches])], np.concatenate([y for _, y in batches])


@pytest.mark.parametrize("recipe", RECIPES, ids=str)
@pytest.mark.parametrize("loss", ["cross_entropy", "mse"])
def test_series_and_single_steps_have_the_same_bits(
    tmp_path: Path, recipe: OptimizerOptions, loss: str
) -> None:
    def target_of(labels: Any) -> Any:
        return labels if loss == "cross_entropy" else np.eye(3, dtype=np.float32)[labels]

    saved, losses = [], []
    for name in ("series", "steps"):
        engine = open_engine(tmp_path / name, recipe, loss=Loss(loss))
        found: list[float] = []
        for first, count in ((0, 5), (5, 3), (8, 5), (13, 1)):
            inputs, labels = rows_of(count, first=first)
            target, rates = target_of(labels), RATES[:count]
            if name == "series":
                series = engine.series(ROWS)
                assert series is not None
                assert series is engine.series(ROWS)
                found += series.train(inputs, target, rates)
                continue
            for step, rate in enumerate(rates):
                part = slice(step * ROWS, (step + 1) * ROWS)
                found.append(engine.train_batch([inputs[0][part]], target[part]))
                engine.step(rate)
        engine.save(tmp_path / f"{name}.safetensors")
        saved.append((tmp_path / f"{name}.safetensors").read_bytes())
        losses.append(found)
    assert saved[0] == saved[1]
    assert losses[0] == losses[1]
    assert len(losses[0]) == 14


def test_a_call_takes_as_many_steps_as_it_has_rates(tmp_path: Path) -> None:
    engine = open_engine(tmp_path)
    series = engine.series(ROWS)
    assert series is not None
    inputs, labels = rows_of(5)
    assert len(series.train(inputs, labels, RATES[:2])) == 2
    assert engine._state.steps == 2


def test_single_steps_may_come_between(tmp_path: Path) -> None:
    together, single = open_engine(tmp_path / "a"), open_engine(tmp_path / "b")
    inputs, labels = rows_of(3)
    series = together.series(ROWS)
    assert series is not None
    losses = [*series.train(inputs, labels, RATES[:1])]
    losses.append(together.train_batch(*batch(1)))
    together.step(RATES[1])
    losses += series.train(*rows_of(1, first=2), RATES[2:3])
    expected = []
    for number in range(3):
        expected.append(single.train_batch(*batch(number)))
        single.step(RATES[number])
    assert losses == expected


def test_a_step_that_needs_more_than_inputs_and_target_is_taken_by_itself(tmp_path: Path) -> None:
    files = compiled(perceptron(), tmp_path / "smooth", by_class=True)
    smooth = LossOptions(label_smoothing=0.1)
    engine = SessionsEngine(
        files, optimizer_options=OptimizerOptions(), threads=1, loss_options=smooth
    )
    assert engine.series(ROWS) is None
    assert open_engine(tmp_path / "threads", threads=2).series(ROWS) is None


def test_small_steps_are_many_in_a_call_and_large_ones_one(tmp_path: Path) -> None:
    engine = open_engine(tmp_path)
    series = engine.series(ROWS)
    assert series is not None
    assert series.most == MOST_STEPS
    manifest = read_manifest(tmp_path / "manifest.json")
    assert steps_at_once(manifest, rows=ROWS) == MOST_STEPS
    large = NUMBERS_AT_ONCE // manifest.work.elements // 2
    assert steps_at_once(manifest, rows=large + 100) == 1
    assert engine.series(large + 100) is None
