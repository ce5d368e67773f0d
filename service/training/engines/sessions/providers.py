"""Execution providers other than the CPU: used only if a step on one agrees with the CPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from service.training.engines.provider_setting import Provider
from service.training.engines.runtime import LOAD_ERRORS, onnxruntime
from service.training.engines.sessions.shares import Shares

TOLERANCE = 1e-2
"""Maximum difference, as a share of the largest number in the same tensor."""
MOST_WORDS = 300
"""Maximum characters of a runtime's own reason."""
Results = Mapping[str, NDArray[np.float32]]


def adopt(
    provider: Provider,
    open_on: Callable[[Provider], Shares],
    step: Callable[[Shares], Results],
    expected: Results,
    *,
    parameters: NDArray[np.float32],
    compare_more: Callable[[Shares], str | None] = lambda _: None,
) -> tuple[Shares | None, str]:
    """The step's runs on a provider, or None and the reason why it is not used.

    step: returns losses and gradients of one batch by name; expected: those of the CPU. It runs
    with halved parameters first, to see that it computes with what they are at a run. compare_more:
    returns what else differs.
    """
    available, (name, _) = onnxruntime.get_available_providers(), provider
    if name not in available:
        return None, f"the installed onnxruntime has {', '.join(available)}"
    right = parameters.copy()
    try:
        parameters *= 0.5
        shares = open_on(provider)
        if not all(name in session.get_providers() for session in shares.sessions):
            return None, "onnxruntime could not load it; the job's log says why"
        step(shares)
        parameters[...] = right
        wrong = disagreement(expected, step(shares)) or compare_more(shares)
    except (MemoryError, RuntimeError, ValueError, *LOAD_ERRORS) as error:
        return None, _reason(error)
    finally:
        parameters[...] = right
    return (shares, "") if wrong is None else (None, wrong)


def _reason(error: Exception) -> str:
    """The end of the message, where runtimes say what it was; before, where they noticed it."""
    words = " ".join(str(error).split())
    return f"… {words[-MOST_WORDS:]}" if len(words) > MOST_WORDS else words or type(error).__name__


def disagreement(expected: Results, results: Results) -> str | None:
    """Where two steps on the same batch differ, None if nowhere."""
    for name, want in expected.items():
        largest = float(np.abs(want).max(initial=0.0))
        gap = float(np.abs(want - results[name]).max(initial=0.0))
        if not gap <= TOLERANCE * largest + 1e-6:
            return f"{name} differs from the CPU's by {gap:.2g}, where numbers reach {largest:.2g}"
    return None
