"""Metrics of next-token prediction, beside their definitions."""

from __future__ import annotations

import numpy as np

from service.training.evaluation.evaluate import by_sample
from service.training.tasks import TASKS
from service.training.tasks.by_token import token_losses
from service.training.tasks.causal_lm import perplexity
from storage.records.signatures import IGNORED, TargetSpec

TASK = TASKS["causal_lm"]


def test_metrics_are_those_of_tokens_however_batches_are_padded() -> None:
    rng = np.random.default_rng(0)
    output, target = rng.normal(size=(4, 6, 9)).astype(np.float32), rng.integers(0, 9, (4, 6))
    output[0, 1:3] = 0  # equal logits: the first count
    for row, length in enumerate((6, 3, 1, 0)):
        target[row, length:] = IGNORED
    logs = output - np.log(np.exp(output).sum(axis=2, keepdims=True))
    there = target != IGNORED
    chosen = np.take_along_axis(logs, np.where(there, target, 0)[..., None], 2)[..., 0]
    order = np.argsort(-output, axis=2, kind="stable")

    whole = TASK.pass_metrics(TargetSpec("labels", "int64", (0,)))
    whole.update(output[:2], target[:2])
    whole.update(output[2:, :1], target[2:, :1])
    found = whole.result()

    assert found["tokens"] == there.sum() == 10
    np.testing.assert_allclose(found["perplexity"], np.exp(-chosen[there].mean()), rtol=1e-6)
    for most in (1, 3, 5):
        near = (order[..., :most] == target[..., None]).any(axis=2)[there].mean()
        np.testing.assert_allclose(found[f"top_{most}_token_accuracy"], near)
        share = TASK.metric(f"top_{most}_token_accuracy").of_samples(output, target)
        np.testing.assert_allclose((share * there.sum(axis=1)).sum() / 10, near)
    np.testing.assert_allclose(token_losses(output, target)[1], -chosen[1, :3].mean(), rtol=1e-6)
    assert perplexity(1e6) < float("inf")


def test_nothing_to_predict_has_no_perplexity() -> None:
    metrics = TASK.pass_metrics(TargetSpec("labels", "int64", (0,)))
    assert metrics.result()["perplexity"] is None


def test_windows_of_a_text_are_one_sample_for_the_gate() -> None:
    ids = np.array([1, 2, 2, 2, 3])
    weights, scores = np.array([2.0, 4, 4, 1, 3]), np.array([1.0, 2, 3, 4, 5])
    found = by_sample(ids, weights, scores)
    assert len(found) == 3
    np.testing.assert_allclose(found.mean(), (weights * scores).sum() / weights.sum())
    np.testing.assert_allclose(found[1] / found[0], (8 + 12 + 4) / 2)
