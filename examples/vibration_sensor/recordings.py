"""Makes the recordings: a pump whose vibration a sensor of three axes measures 400 times a second.

No pump was at hand that breaks on demand, so the numbers are computed, by a seed: nothing is
committed, and the same seed gives the same. A pump hums at the speed of its shaft and its second
harmonic, under noise. Faults are rare and last a second or two: a worn bearing clicks several times
a turn, and each click rings at 120 Hz; a loose mount swings one axis at half the shaft's speed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

RATE = 400
"""Rows a second."""
CHANNELS = ("x", "y", "z")
FAULTS = ("bearing", "mount")
FAULT_S = (1.0, 2.0)
CALM_S = (20.0, 40.0)
"""How long a fault lasts, and how long it is calm before the next."""


def record(seconds: float, *, seed: int, breaks: bool = True) -> tuple[Array, NDArray[np.bool_]]:
    """Vibration (rows, 3) in milli-g, and whether there is a fault in each row.

    breaks: whether there is ever one.
    """
    generator = np.random.default_rng(seed)
    count = round(seconds * RATE)
    times = np.arange(count) / RATE
    speed = 24.0 * (1 + 0.03 * np.sin(2 * np.pi * times / 37 + generator.uniform(0, 6)))
    turns = np.cumsum(speed) / RATE
    loudness = np.array([100.0, 60.0, 30.0])
    hum = np.sin(2 * np.pi * (turns[:, None] + generator.uniform(0, 1, 3)))
    hum += 0.4 * np.sin(4 * np.pi * (turns[:, None] + generator.uniform(0, 1, 3)))
    signal = loudness * (hum + 0.5 * generator.standard_normal((count, 3)))
    has_fault = np.zeros(count, bool)
    at = generator.uniform(*CALM_S) / 2
    while breaks and at < seconds - FAULT_S[1]:
        fault = FAULTS[int(generator.integers(2))]
        rows = slice(round(at * RATE), round((at + generator.uniform(*FAULT_S)) * RATE))
        signal[rows] += _fault(fault, turns[rows], times[rows], generator)
        has_fault[rows] = True
        at = rows.stop / RATE + generator.uniform(*CALM_S)
    return signal, has_fault


def _fault(fault: str, turns: Array, times: Array, generator: np.random.Generator) -> Array:
    strength = generator.uniform(0.7, 1.3)
    if fault == "mount":
        swing = 90 * strength * np.sin(np.pi * turns + generator.uniform(0, 6))
        return swing[:, None] * np.array([0.2, 1.0, 0.3])
    since = (turns * 3.6 % 1) / 3.6 / 24
    ring = 220 * strength * np.exp(-since * 150) * np.sin(2 * np.pi * 120 * times)
    return ring[:, None] * np.array([1.0, 0.6, 0.8])


def as_csv(signal: Array, has_fault: NDArray[np.bool_] | None = None) -> str:
    """A row a moment, as a logger writes it; with what a technician noted of each, if anything."""
    rows = [",".join(f"{each:.1f}" for each in row) for row in signal.tolist()]
    header = ",".join(CHANNELS)
    if has_fault is not None:
        header += ",label"
        noted = np.where(has_fault, "anomalous", "normal")
        rows = [f"{row},{each}" for row, each in zip(rows, noted, strict=True)]
    return "\n".join([header, *rows]) + "\n"
