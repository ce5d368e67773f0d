"""Drift over HTTP: figures, one event a crossing, and a gate that holds."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from pictures import PREPROCESS, image_model, photo
from support import Served, mlp

GENERATOR = np.random.default_rng(0)
HOT = np.array([0, 4, 0])
"""How far the second feature moves."""


@pytest.fixture
def model(served: Served, request: pytest.FixtureRequest) -> str:
    name = re.sub(r"\W+", "-", request.node.name)[:60]
    served.register(name, mlp(3, 8, 2), classes=["low", "high"])
    return name


def send(
    served: Served, model: str, rows: Any, *, labelled: bool = True, to: str = "samples"
) -> None:
    lines = [
        ",".join([*map(str, row), ("high" if row[0] > 0 else "low") if labelled else ""])
        for row in np.asarray(rows).round(4).tolist()
    ]
    answer = served.http.post(
        f"/v1/models/{model}/{to}",
        content="\n".join(["heat,load,noise,label", *lines]),
        headers={"Content-Type": "text/csv"},
    )
    assert answer.status_code == 201, answer.text


def drift(served: Served, model: str) -> Any:
    answer = served.http.get(f"/v1/models/{model}/drift")
    assert answer.status_code == 200, answer.text
    return answer.json()


def drift_events(served: Served, model: str) -> list[Any]:
    """Data of those that are stored. The first CSV has changed the model, and so do we at last."""
    served.http.patch(f"/v1/models/{model}", json={"duplicates": "keep"})
    found, changes = [], 0
    query: Any = {"last_event_id": 0, "model": model, "type": "model."}
    with served.http.stream("GET", "/v1/events", params=query) as stream:
        for line in stream.iter_lines():
            if line.startswith("data: "):
                happened = json.loads(line[6:])
                changes += happened["type"] == "model.updated"
                if changes == 2:
                    return found
                if happened["type"] == "model.drifted":
                    found.append(happened["data"])
    raise AssertionError("the stream has ended")


def trained(served: Served, model: str) -> None:
    send(served, model, GENERATOR.normal(size=(300, 3)))
    job = served.train(model, epochs=5, learning_rate=0.02, seed=1)
    assert served.http.get(f"/v1/models/{model}/latest").json()["version"] == job["version"]


def test_nothing_is_said_of_a_version_that_no_job_made_or_with_few_samples(
    served: Served, model: str
) -> None:
    first = drift(served, model)
    assert (first["version"], first["drifted"], first["training_samples"]) == (1, None, 0)
    trained(served, model)
    send(served, model, GENERATOR.normal(size=(10, 3)))

    few = drift(served, model)

    assert (few["version"], few["drifted"], few["recent_samples"]) == (2, None, 10)
    assert 250 < few["training_samples"] < 300


def test_a_shift_is_told_by_feature_and_as_one_event(served: Served, model: str) -> None:
    trained(served, model)
    send(served, model, GENERATOR.normal(size=(60, 3)))
    send(served, model, GENERATOR.normal(size=(400, 3)) + HOT, to="base-set")
    same = drift(served, model)
    assert (same["drifted"], same["compared"], same["recent_samples"]) == (False, 3, 60)

    send(served, model, GENERATOR.normal(size=(300, 3)) + HOT, labelled=False)
    moved = drift(served, model)
    send(served, model, GENERATOR.normal(size=(5, 3)) + HOT, labelled=False)
    drift(served, model)

    assert moved["drifted"] is True
    assert moved["features"][0]["name"] == "load"
    assert moved["features"][0]["psi"] > moved["features"][0]["limit"]
    assert [each["psi"] > each["limit"] for each in moved["features"]] == [True, False, False]
    (told,) = drift_events(served, model)
    assert (told["version"], told["feature"]) == (2, 1)


def test_kept_predictions_count_as_recent(served: Served, model: str) -> None:
    trained(served, model)
    rows = (GENERATOR.normal(size=(50, 3)) + 2 * HOT).tolist()
    served.http.post(
        f"/v1/models/{model}/predict",
        params={"keep": "true"},
        json={"instances": [{"inputs": {"x": row}} for row in rows]},
    )
    assert drift(served, model)["drifted"] is True


def test_an_event_is_not_repeated_after_a_restart(serve: Callable[..., Served]) -> None:
    served = serve()
    served.register("m", mlp(3, 8, 2), classes=["low", "high"])
    trained(served, "m")
    send(served, "m", GENERATOR.normal(size=(60, 3)) + HOT)
    assert drift(served, "m")["drifted"] is True
    served.stop()

    again = serve()

    assert drift(again, "m")["drifted"] is True
    assert len(drift_events(again, "m")) == 1


@pytest.mark.parametrize("held", [True, False])
def test_a_gate_may_hold_what_was_trained_on_drifted_inputs(
    served: Served, model: str, held: bool
) -> None:
    url = f"/v1/models/{model}"
    trained(served, model)
    gate = {"hold_on_drift": held, "min_validation_samples": 0}
    served.http.patch(url, json={"gate": gate})
    send(served, model, GENERATOR.normal(size=(300, 3)) + HOT)

    job = served.train(model, epochs=5, learning_rate=0.02, seed=1)

    version = served.http.get(f"{url}/versions/{job['version']}").json()
    assert ("drift" in version["verdict"]) is held
    assert version["promoted"] is not held, version["reason"]
    if held:
        assert version["verdict"]["drift"]["outcome"] == "worse"
        assert "1 of 3 features of inputs have drifted" in version["reason"]
        assert "move latest by hand" in version["reason"]


def test_images_are_compared_by_a_few_figures(served: Served) -> None:
    served.register(
        "drift-images", image_model(), classes=["dark", "bright"], preprocess=PREPROCESS
    )
    shades = [60, 190]

    def upload(seeds: range, darker: int) -> None:
        files = [("file", (f"{n}.png", photo(shades[n % 2] - darker, n, side=9))) for n in seeds]
        answer = served.http.post(
            "/v1/models/drift-images/samples", files=files, params={"label": "dark"}
        )
        assert answer.status_code == 201, answer.text

    upload(range(60), 0)
    served.http.patch("/v1/models/drift-images", json={"gate": {"mode": "always"}})
    served.train("drift-images", epochs=1, seed=1)
    upload(range(100, 150), 55)

    found = drift(served, "drift-images")

    assert (found["drifted"], found["compared"]) == (True, 64)
