"""How defaults, the model's and the request's hyperparameters make one set."""

from __future__ import annotations

from service.jobs.enqueue import DEFAULT_EPOCHS, merge


def test_without_anything_the_defaults_train() -> None:
    merged = merge({}, {}, seed=7)

    assert merged["epochs"] == DEFAULT_EPOCHS
    assert merged["seed"] == 7
    assert merged["batch_size"] == 32


def test_the_request_wins_over_the_model() -> None:
    merged = merge({"batch_size": 8, "learning_rate": 0.1}, {"batch_size": 16}, seed=0)

    assert (merged["batch_size"], merged["learning_rate"]) == (16, 0.1)


def test_a_request_that_says_how_long_replaces_what_the_model_says() -> None:
    merged = merge({"epochs": 100, "max_seconds": 5.0}, {"max_steps": 10}, seed=0)

    assert (merged["epochs"], merged["max_seconds"], merged["max_steps"]) == (None, None, 10)


def test_null_in_a_request_means_not_asked() -> None:
    assert merge({"epochs": 3}, {"epochs": None, "seed": None}, seed=1)["epochs"] == 3


def test_what_is_built_into_the_optimizer_is_no_jobs_business() -> None:
    assert "weight_decay" not in merge({"weight_decay": 0.1}, {}, seed=0)
