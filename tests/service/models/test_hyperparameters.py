"""How defaults, the model's and the request's hyperparameters make one set."""

from __future__ import annotations

from typing import Any

import pytest
from stored import new_model

from service.errors import InvalidInput
from service.models import hyperparameters
from service.models.hyperparameters import DEFAULT_EPOCHS, check_hyperparameters
from service.training.hyperparameters import CHOSEN


def merge(defaults: dict[str, Any], request: dict[str, Any], *, seed: int) -> dict[str, Any]:
    """Of a model with these defaults, whose optimizer is adamw."""
    return hyperparameters.merge(new_model(hyperparameters=defaults), request, seed=seed)


def test_without_anything_the_job_chooses_its_course() -> None:
    merged = merge({}, {"optimizer": "sgd"}, seed=7)

    assert (merged["seed"], merged["optimizer"], merged["accumulation_steps"]) == (7, "sgd", 1)
    assert merged["auto"] is True
    assert not set(CHOSEN) & merged.keys()


@pytest.mark.parametrize(
    ("model", "request_"),
    [({}, {"learning_rate": 0.1}), ({"learning_rate": 0.1}, {}), ({}, {"auto": False})],
)
def test_who_says_how_fast_gets_the_defaults_for_the_rest(
    model: dict[str, Any], request_: dict[str, Any]
) -> None:
    merged = merge(model, request_, seed=0)

    assert (merged["epochs"], merged["batch_size"]) == (DEFAULT_EPOCHS, 32)
    assert merged["auto"] is False


def test_a_job_may_choose_what_a_request_leaves_out() -> None:
    merged = merge({"batch_size": 8}, {"auto": True, "max_steps": 10}, seed=0)

    assert (merged["batch_size"], merged["max_steps"], merged["epochs"]) == (8, 10, None)
    assert "learning_rate" not in merged


def test_the_request_wins_over_the_model() -> None:
    merged = merge({"batch_size": 8, "learning_rate": 0.1}, {"batch_size": 16}, seed=0)

    assert (merged["batch_size"], merged["learning_rate"]) == (16, 0.1)


def test_a_request_that_says_how_long_replaces_what_the_model_says() -> None:
    merged = merge({"epochs": 100, "max_seconds": 5.0}, {"max_steps": 10}, seed=0)

    assert (merged["epochs"], merged["max_seconds"], merged["max_steps"]) == (None, None, 10)


def test_null_in_a_request_means_not_asked() -> None:
    assert merge({"epochs": 3}, {"epochs": None, "seed": None}, seed=1)["epochs"] == 3


def test_a_job_may_choose_the_optimizer_and_the_models_options_are_then_not_its() -> None:
    defaults = {"betas": [0.8, 0.9], "weight_decay": 0.1}
    assert merge(defaults, {}, seed=0)["betas"] == [0.8, 0.9]
    merged = merge(defaults, {"optimizer": "sgd", "momentum": 0.9}, seed=0)
    assert (merged["optimizer"], merged["momentum"]) == ("sgd", 0.9)
    assert "betas" not in merged
    assert merged["weight_decay"] == 0.1


def test_a_computed_head_takes_nothing_of_how_to_train() -> None:
    defaults = {"learning_rate": 0.1, "epochs": 9, "class_weights": [1, 2], "replay": 0.2}
    merged = merge(defaults, {"head": {"kind": "knn", "k": None}}, seed=3)
    head = {"kind": "knn", "k": 5}
    assert merged == {"head": head, "seed": 3, "replay": 0.2, "auto": False}


def test_a_request_that_says_how_to_train_leaves_the_models_computed_head_out() -> None:
    defaults = {"head": {"kind": "prototype"}}
    assert merge(defaults, {}, seed=0)["head"] == {"kind": "prototype"}
    assert "head" not in merge(defaults, {"class_weights": [1, 2]}, seed=0)
    assert "head" not in merge(defaults, {"auto": True}, seed=0)
    assert merge(defaults, {"auto": False}, seed=0)["head"] == {"kind": "prototype"}
    assert merge({"head": {"kind": "linear"}}, {"epochs": 2}, seed=0)["head"] == {"kind": "linear"}


def test_a_recipe_that_the_engine_cannot_train_is_refused_field_by_field() -> None:
    model = new_model(trainable=("body.w", "head.w"), hyperparameters={"optimizer": "sgd"})
    asked = {"betas": [0.9, 0.9], "rate_factors": {"neck.*": 0.1}, "decays": ["head.*"]}
    with pytest.raises(InvalidInput) as refused:
        check_hyperparameters(model, asked, at="/spec")
    assert {problem.pointer: problem.detail for problem in refused.value.problems} == {
        "/spec/betas": "sgd has no betas; leave it out, or take adam, adamw, lion",
        "/spec/decays": "decays says what shrinks by a weight_decay above 0; give one, too",
        "/spec/rate_factors": "no trained parameter matches 'neck.*'; they are body.w, head.w",
    }


def test_artifacts_of_microsofts_tools_keep_their_optimizer() -> None:
    model = new_model(engine="ort_training", hyperparameters={"weight_decay": 0.1})
    check_hyperparameters(model, {"epochs": 3, "optimizer": None})
    with pytest.raises(InvalidInput) as refused:
        check_hyperparameters(model, {"optimizer": "sgd"})
    (problem,) = refused.value.problems
    assert problem.pointer == "/optimizer"
    assert "register the forward ONNX model" in problem.detail
