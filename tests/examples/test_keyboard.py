"""examples/keyboard: a model learns a second author's words, and keeps those of the first."""

from __future__ import annotations

import re
from collections.abc import Callable

from support import DEADLINE_S, Served


def test_a_keyboard_learns_a_new_author_and_keeps_the_old_one(
    serve: Callable[..., Served], run: Callable[..., str]
) -> None:
    # As in `honed demo`: beside other tests a nice job gets little.
    served = serve(training_nice=0)
    told = run("keyboard/learn.py", served=served, timeout_s=4 * DEADLINE_S)
    before, after = (
        [float(number) for number in re.findall(r"\d+\.\d", line)]
        for line in told.splitlines()
        if line.startswith(("before", "after"))
    )
    old, new, near, saved = range(4)
    assert after[new] <= 0.75 * before[new], told
    assert after[near] >= before[near] + 6, told  # 7.5 when it was written
    assert after[old] <= 1.1 * before[old], told
    assert after[saved] > before[saved], told
    assert "promoted: validation perplexity" in told
