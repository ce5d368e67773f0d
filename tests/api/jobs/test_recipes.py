"""A job chooses its optimizer: what the API takes, refuses, and trains."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx.numpy_helper import to_array
from support import Served, blobs, mlp

FIRST, SECOND = "layer0.weight", "layer1.weight"


@pytest.fixture(scope="module")
def model(served: Served) -> str:
    served.register("recipes", mlp(6, 8, 3), gate={"mode": "always"})
    served.upload("recipes", **blobs(40, 6, 3), split="train").raise_for_status()
    return "recipes"


def weights(served: Served, model: str, **job: Any) -> dict[str, Any]:
    """What one step on all samples makes of the uploaded weights."""
    made = served.train(model, **{"from": "base", "max_steps": 1, "batch_size": 40, **job})
    content = served.http.get(f"/v1/models/{model}/versions/{made['version']}/model.onnx").content
    graph = onnx.load_model_from_string(content).graph
    return {initializer.name: to_array(initializer) for initializer in graph.initializer}


def test_optimizers_factors_and_decay_move_the_weights_as_their_formulas_say(
    served: Served, model: str
) -> None:
    started = {each.name: to_array(each) for each in _uploaded()}
    plain = weights(served, model, optimizer="sgd", learning_rate=0.5)
    gradient = {name: (started[name] - plain[name]) / 0.5 for name in started}
    signed = weights(served, model, optimizer="lion", learning_rate=0.01)
    slow = weights(
        served,
        model,
        optimizer="sgd",
        learning_rate=0.5,
        rate_factors={"layer0.*": 0.1},
        weight_decay=0.2,
        decays=[SECOND],
    )
    for name in (FIRST, SECOND):
        expected = started[name] - 0.01 * np.sign(gradient[name])
        np.testing.assert_allclose(signed[name], expected, atol=1e-6)
    np.testing.assert_allclose(
        slow[FIRST], started[FIRST] - 0.05 * gradient[FIRST], rtol=1e-4, atol=1e-6
    )
    np.testing.assert_allclose(
        slow[SECOND],
        started[SECOND] - 0.5 * (gradient[SECOND] + 0.2 * started[SECOND]),
        rtol=1e-4,
        atol=1e-6,
    )


def _uploaded() -> Any:
    return onnx.load_model_from_string(mlp(6, 8, 3)).graph.initializer


def test_what_an_optimizer_does_not_take_is_refused_by_name(served: Served, model: str) -> None:
    answer = served.http.post(
        f"/v1/models/{model}/jobs",
        json={"optimizer": "sgd", "betas": [0.9, 0.99], "weight_decay": 0.1, "decays": ["neck.*"]},
    )
    assert answer.status_code == 422
    assert [error["pointer"] for error in answer.json()["errors"]] == ["/betas", "/decays"]
    answer = served.http.post(
        f"/v1/models/{model}/jobs", json={"optimizer": "lion", "momentum": 0.0, "epsilon": 1e-8}
    )
    assert answer.json()["errors"] == [
        {
            "pointer": "/momentum",
            "detail": "lion has no momentum; leave it out, or take sgd, rmsprop",
        },
        {
            "pointer": "/epsilon",
            "detail": "lion has no epsilon; leave it out, or take adam, adamw, rmsprop",
        },
    ]


def test_a_job_lists_what_its_optimizer_and_its_loss_take(served: Served, model: str) -> None:
    job = served.ask_for_job(model, optimizer="lion", max_steps=1)
    listed = set(job["hyperparameters"])
    assert {"optimizer", "betas", "weight_decay", "ema_decay", "label_smoothing"} <= listed
    assert listed.isdisjoint({"momentum", "nesterov", "alpha", "epsilon"})
    assert served.wait_for_job(job["id"])["state"] == "succeeded"
    served.register("recipes-l1", mlp(6, 8, 3), loss="l1")
    served.upload("recipes-l1", x=np.ones((4, 6)), label=np.ones((4, 3)), split="train")
    listed = set(served.ask_for_job("recipes-l1", optimizer="sgd")["hyperparameters"])
    assert {"momentum", "nesterov"} <= listed
    assert listed.isdisjoint({"betas", "epsilon", "label_smoothing", "class_weights"})


def test_a_models_defaults_hold_for_jobs_that_choose_nothing(served: Served, model: str) -> None:
    changed = served.http.patch(
        f"/v1/models/{model}", json={"hyperparameters": {"optimizer": "rmsprop", "alpha": 0.9}}
    )
    assert changed.status_code == 200, changed.text
    job = served.train(model, max_steps=1)
    chosen = {name: job["hyperparameters"][name] for name in ("optimizer", "alpha", "momentum")}
    assert chosen == {"optimizer": "rmsprop", "alpha": 0.9, "momentum": 0.0}
    refused = served.http.patch(f"/v1/models/{model}", json={"hyperparameters": {"nesterov": True}})
    assert refused.json()["errors"][0]["pointer"] == "/hyperparameters/nesterov"


def test_the_loss_of_a_job_is_pytorchs_with_smoothing_weights_and_an_ignored_class(
    served: Served, model: str
) -> None:
    options = {"label_smoothing": 0.2, "class_weights": [1.0, 0.5, 2.0], "ignore_index": 1}
    started = {each.name: to_array(each) for each in _uploaded()}
    made = weights(served, model, optimizer="sgd", learning_rate=0.5, **options)
    data = blobs(40, 6, 3)
    hidden = np.maximum(data["x"] @ started[FIRST] + started["layer0.bias"], 0)
    logits = hidden @ started[SECOND] + started["layer1.bias"]
    share = np.exp(logits - logits.max(axis=1, keepdims=True))
    share /= share.sum(axis=1, keepdims=True)
    of_class = np.array(options["class_weights"])
    target = np.eye(3)[data["label"]] * 0.8 + 0.2 / 3
    wanted = target * of_class * (data["label"] != 1)[:, None]
    slope = share * wanted.sum(axis=1, keepdims=True) - wanted
    slope /= (of_class[data["label"]] * (data["label"] != 1)).sum()
    moved = started[SECOND] - 0.5 * hidden.T @ slope
    np.testing.assert_allclose(made[SECOND], moved, rtol=1e-4, atol=1e-6)


def test_options_of_cross_entropy_that_do_not_fit_are_refused_by_name(
    served: Served, model: str
) -> None:
    answer = served.http.post(
        f"/v1/models/{model}/jobs", json={"class_weights": [1.0, 2.0], "ignore_index": 3}
    )
    assert [error["pointer"] for error in answer.json()["errors"]] == [
        "/class_weights",
        "/ignore_index",
    ]
    for wrong in ([1.0, 1.0, 1e39], [0.0, 0.0, 0.0]):
        answer = served.http.post(f"/v1/models/{model}/jobs", json={"class_weights": wrong})
        assert [error["pointer"] for error in answer.json()["errors"]] == ["/class_weights"]
    served.register("recipes-mse", mlp(6, 8, 3), loss="mse")
    served.upload("recipes-mse", x=np.ones((4, 6)), label=np.ones((4, 3)), split="train")
    answer = served.http.post("/v1/models/recipes-mse/jobs", json={"label_smoothing": 0.1})
    assert answer.json()["errors"] == [
        {
            "pointer": "/label_smoothing",
            "detail": "label_smoothing is of cross_entropy, the model's loss is mse; leave it out",
        }
    ]
