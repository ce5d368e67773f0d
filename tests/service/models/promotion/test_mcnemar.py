from fractions import Fraction
from math import comb

import pytest

from service.models.promotion.findings import exact_p_value


def by_counting(b: int, c: int) -> float:
    tail = sum(comb(b + c, i) for i in range(min(b, c) + 1))
    return float(min(Fraction(1), Fraction(2 * tail, 2 ** (b + c))))


@pytest.mark.parametrize("b", [0, 1, 2, 5, 6, 17, 40, 300])
@pytest.mark.parametrize("c", [0, 1, 4, 6, 25, 40, 700])
def test_the_p_value_is_the_binomial_one(b: int, c: int) -> None:
    assert exact_p_value(b, c) == pytest.approx(by_counting(b, c), rel=1e-9, abs=1e-300)


def test_six_samples_are_the_fewest_that_can_tell() -> None:
    assert exact_p_value(0, 5) > 0.05 > exact_p_value(0, 6)


def test_without_discordant_samples_there_is_no_evidence() -> None:
    assert exact_p_value(0, 0) == 1.0


def test_a_hundred_thousand_samples_are_no_trouble() -> None:
    assert exact_p_value(50_500, 49_500) == pytest.approx(0.00158, rel=0.01)
