"""The population stability index, what chance makes of it, and what is compared of large inputs."""

from __future__ import annotations

import math

import numpy as np
import pytest

from service.training.evaluation.drift import (
    FIGURES,
    THRESHOLD,
    chi_squared,
    compare,
    figures,
    psi,
)

GENERATOR = np.random.default_rng(0)


def test_the_index_is_what_its_formula_says_by_hand() -> None:
    before, now = np.array([0.0, 1.0] * 10), np.array([0.0] * 6 + [1.0] * 2)

    index, bins = psi(before, now)

    # Edges 0, 0.5, 1 and just above: below 0, [0, 0.5), [0.5, 1), 1, above 1.
    expected = [each / 22.5 for each in (0.5, 10.5, 0.5, 10.5, 0.5)]
    actual = [each / 10.5 for each in (0.5, 6.5, 0.5, 2.5, 0.5)]
    by_hand = sum((a - e) * math.log(a / e) for a, e in zip(actual, expected, strict=True))
    assert bins == 5
    assert index == pytest.approx(by_hand)


@pytest.mark.parametrize(("freedom", "p", "exact"), [(9, 0.001, 27.877), (11, 1e-5, 43.206)])
def test_the_chance_of_an_index_is_that_of_tables(freedom: int, p: float, exact: float) -> None:
    assert chi_squared(freedom, p) == pytest.approx(exact, rel=0.02)


def test_of_equal_inputs_chance_alone_seems_drift_hardly_ever() -> None:
    alarms = 0
    for _ in range(300):
        training, recent = GENERATOR.normal(size=(1000, 8)), GENERATOR.normal(size=(30, 8))
        alarms += compare({"x": training}, {"x": recent}).drifted > 0
    assert alarms <= 3


@pytest.mark.parametrize("recent", [40, 300])
def test_a_shift_of_one_feature_is_found_and_named_first(recent: int) -> None:
    now = GENERATOR.normal(size=(recent, 8))
    now[:, 5] += 1.5

    found = compare({"x": GENERATOR.normal(size=(1000, 8))}, {"x": now})

    assert (found.compared, found.drifted) == (8, 1)
    worst = found.features[0]
    assert (worst.input, worst.feature, worst.figure) == ("x", 5, None)
    assert worst.psi > worst.limit >= THRESHOLD
    assert worst.recent_mean - worst.training_mean == pytest.approx(1.5, abs=0.6)


def test_a_constant_feature_that_moves_has_drifted() -> None:
    for moved in (6.0, 4.0):
        found = compare({"x": np.full((100, 1), 5.0)}, {"x": np.full((100, 1), moved)})
        assert found.drifted == 1
    assert compare({"x": np.full((100, 1), 5.0)}, {"x": np.full((100, 1), 5.0)}).drifted == 0


def test_too_few_samples_are_not_compared() -> None:
    found = compare({"x": np.zeros((100, 2))}, {"x": np.ones((29, 2))})
    assert (found.compared, found.recent_samples, found.features) == (0, 29, ())


def test_large_inputs_are_summed_up() -> None:
    rows = np.stack([np.tile([0.0, 2.0], 50), np.full(100, 7.0)]).reshape(2, 10, 10)

    assert figures(rows).tolist() == [[1, 1, 2], [7, 0, 0]]
    assert figures(np.zeros((3, 8, 8))).shape == (3, 64)
    assert figures(np.zeros((0, 30, 30))).shape == (0, len(FIGURES))
    assert figures(np.arange(6, dtype=np.int64).reshape(2, 3)).dtype == np.float64
    found = compare(
        {"x": figures(GENERATOR.normal(size=(100, 100)))}, {"x": np.ones((50, 3))}, ["x"]
    )
    assert {feature.figure for feature in found.features} == set(FIGURES)
