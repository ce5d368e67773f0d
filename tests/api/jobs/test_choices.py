"""A job that is told nothing of its course chooses it, and says why."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support import Served, blobs, mlp

CHOSEN = {"batch_size", "epochs", "schedule", "learning_rate"}


@pytest.fixture(scope="module")
def model(served: Served) -> str:
    served.register("choices", mlp(6, 8, 3), gate={"mode": "always"})
    served.upload("choices", **blobs(60, 6, 3), split="train").raise_for_status()
    return "choices"


def test_the_job_says_what_it_has_chosen_and_why(served: Served, model: str) -> None:
    job = served.train(model)
    assert job["choices"].keys() == CHOSEN
    assert job["choices"]["batch_size"] == "for 60 training samples"
    chosen = {name: job["hyperparameters"][name] for name in CHOSEN}
    assert chosen == {
        "batch_size": 8,
        "epochs": 40,
        "schedule": "cosine",
        "learning_rate": pytest.approx(0.005, rel=0.1),
    }
    assert job["progress"]["step"] == 320


def test_a_job_that_waits_shows_only_what_it_was_told(served: Served, model: str) -> None:
    served.http.post("/v1/pause").raise_for_status()
    asked = {"auto": True, "epochs": 2, "learning_rate": 0.01}
    job = served.http.post(f"/v1/models/{model}/jobs", json=asked).json()
    assert "batch_size" not in job["hyperparameters"]
    assert job["hyperparameters"]["epochs"] == 2
    assert job["choices"] == {}
    served.http.post("/v1/resume").raise_for_status()
    ended = served.wait_for_job(job["id"])
    assert ended["choices"].keys() == {"batch_size", "schedule"}
    assert ended["hyperparameters"]["learning_rate"] == 0.01


def test_who_gives_a_rate_gets_the_fixed_defaults(served: Served, model: str) -> None:
    job = served.train(model, learning_rate=0.01)
    assert job["choices"] == {}
    fixed = {"epochs": 5, "batch_size": 32, "schedule": "constant"}
    assert fixed.items() <= job["hyperparameters"].items()


def test_a_job_chooses_also_where_the_loss_is_0_already(served: Served) -> None:
    served.register("perfect", mlp(3, 3), gate={"mode": "always"})
    label = np.arange(30) % 3
    x = 1000 * np.eye(3, dtype=np.float32)[label]
    served.upload("perfect", x=x, label=label, split="train").raise_for_status()
    assert served.train("perfect", epochs=100, learning_rate=0.1)["metrics"]["train_loss"] == 0
    again = served.train("perfect")
    assert again["choices"].keys() == CHOSEN
    assert again["metrics"]["train_loss"] == 0


def rare_model(served: Served, name: str) -> None:
    """One class in twenty."""
    served.register(name, mlp(6, 8, 2), gate={"mode": "always"})
    rng = np.random.default_rng(0)
    labels = (np.arange(600) % 20 == 0).astype(np.int64)
    x = rng.normal(size=(600, 6)).astype(np.float32)
    x[:, 0] += 3 * labels
    served.upload(name, x=x[:300], label=labels[:300], split="train").raise_for_status()
    served.upload(name, x=x[300:], label=labels[300:], split="validation").raise_for_status()


def test_rare_classes_are_learned_without_being_told(served: Served) -> None:
    """With the fixed defaults they are hardly ever predicted."""
    rare_model(served, "rare")
    told, chose = served.train("rare", epochs=5, **{"from": "base"}), served.train("rare")
    assert "class_weights" in chose["choices"], chose
    f1 = [job["metrics"]["validation"]["macro_f1"] for job in (told, chose)]
    assert f1[1] > 1.2 * f1[0]


def test_rare_classes_are_learned_by_batches_that_have_as_many_of_each(served: Served) -> None:
    rare_model(served, "drawn")
    recipe: dict[str, Any] = {"epochs": 10, "learning_rate": 0.01, "seed": 0, "from": "base"}
    found = [
        served.train("drawn", **recipe, sampling=each)["metrics"]["validation"]["recall"][1]
        for each in ("shuffled", "balanced")
    ]
    assert found[1] > 1.2 * found[0]
    chose = served.train("drawn", sampling="balanced")
    assert not {"class_weights", "early_stopping_patience"} & chose["choices"].keys()
