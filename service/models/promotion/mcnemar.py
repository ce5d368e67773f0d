"""McNemar's test: whether two classifiers differ on the same samples."""

from __future__ import annotations

from math import exp, lgamma, log


def exact_p_value(b: int, c: int) -> float:
    """Two-sided p-value: of b + c samples that one of two models alone gets right, b are of one.

    Under the null hypothesis each goes to either model with probability one half, so b is binomial:
    p = min(1, 2 · Σ_{i ≤ min(b, c)} C(b + c, i) / 2^(b + c)); 1 without such samples.
    Source: McNemar (1947), Psychometrika 12; exact form: Dietterich (1998), Neural Computation 10.
    """
    n, fewer = b + c, min(b, c)
    logs = [
        lgamma(n + 1) - lgamma(i + 1) - lgamma(n - i + 1) - n * log(2) for i in range(fewer + 1)
    ]
    return min(1.0, 2 * sum(map(exp, logs)))
