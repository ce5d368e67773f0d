"""What rounds spend, against figures that the package dp-accounting 0.6 gave, and the package."""

from math import inf, isfinite

import pytest

from service.federation.accounting import LEAST_NOISE, epsilon_of, rho_of

REFERENCE = [
    (1.0, 1, 1e-5, 4.728507067217623),
    (1.0, 100, 1e-5, 96.11630842505602),
    (2.0, 10, 1e-5, 8.079406222420491),
    (5.0, 100, 1e-5, 10.725509696418232),
    (10.0, 100, 1e-6, 5.2215396311544175),
    (0.5, 3, 1e-5, 21.44485232771325),
    (50.0, 1, 1e-5, 0.07020481624803404),
]


@pytest.mark.parametrize(("noise", "rounds", "delta", "epsilon"), REFERENCE)
def test_rounds_spend_what_the_reference_says(noise, rounds, delta, epsilon):
    spent = sum(rho_of(noise) for _ in range(rounds))
    assert epsilon_of(spent, delta=delta) == pytest.approx(epsilon, rel=1e-9)


def test_a_hundred_different_rounds_agree_with_the_package():
    package = pytest.importorskip("dp_accounting")
    from dp_accounting import rdp

    accountant, spent = rdp.RdpAccountant(), 0.0
    for number in range(100):
        noise = 1 + number / 10
        accountant.compose(package.GaussianDpEvent(noise))
        spent += rho_of(noise)
        expected = accountant.get_epsilon(1e-5)
        assert epsilon_of(spent, delta=1e-5) == pytest.approx(expected, rel=1e-9)


def test_nothing_spent_is_nothing_and_no_noise_is_everything():
    assert epsilon_of(0.0, delta=1e-5) == 0
    assert rho_of(0.0) == inf
    assert epsilon_of(rho_of(0.0) + 1, delta=1e-5) == inf


@pytest.mark.parametrize("noise", [5e-324, 1e-200, 1e-155, LEAST_NOISE * 0.999])
def test_noise_too_small_to_count_is_none(noise):
    assert rho_of(noise) == inf


def test_the_least_noise_spends_a_number():
    assert isfinite(epsilon_of(1_000_000 * rho_of(LEAST_NOISE), delta=1e-100))


def test_every_round_spends_more():
    told = [epsilon_of(count * rho_of(3.0), delta=1e-5) for count in range(1, 50)]
    assert told == sorted(told)
    assert len(set(told)) == len(told)
