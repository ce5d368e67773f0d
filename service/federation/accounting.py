"""Privacy accounting of rounds with Gaussian noise.

A round adds noise of standard deviation noise_multiplier · clip_norm to a device's whole update,
whose norm is at most clip_norm. Its Rényi divergence of order a is a·rho with rho = 1 / (2 z²),
where z is the noise_multiplier (Mironov (2017), Rényi Differential Privacy, corollary 3), so rounds
add up in one number: the sum of their rho. This holds for updates with and without one device;
nothing is gained from choosing devices at random, which a device could not check.

Orders and conversion are those of the package dp-accounting 0.6, and so are the results.
"""

from __future__ import annotations

from math import expm1, inf, log, log1p

ORDERS = (
    *(1 + tenth / 10 for tenth in range(1, 100)),
    *range(11, 64),
    *(128, 256, 512, 1024),
)
"""Orders of the divergence; the one with the tightest bound is used."""


LEAST_NOISE = 1e-3
"""A smaller noise multiplier counts as none: its square may be too small for a float."""


def rho_of(noise_multiplier: float) -> float:
    """The rho that one round spends; infinite without noise."""
    return 1 / (2 * noise_multiplier**2) if noise_multiplier >= LEAST_NOISE else inf


def epsilon_of(rho: float, *, delta: float) -> float:
    """The ε of (ε, δ)-differential privacy after rounds that have spent rho.

    Canonne, Kamath, Steinke (2020), The Discrete Gaussian for Differential Privacy, proposition 12.
    """
    if rho == inf:
        return inf
    return max(0.0, min(_bound(order, order * rho, delta) for order in ORDERS))


def _bound(order: float, divergence: float, delta: float) -> float:
    if delta**2 + expm1(-divergence) > 0:  # by the Kullback-Leibler divergence
        return 0.0
    return divergence + log1p(-1 / order) - log(delta * order) / (order - 1)
