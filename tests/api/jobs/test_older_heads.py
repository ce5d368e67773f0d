"""Heads of models that were registered when Hone did not look for the last layer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from stored import unpacked
from support import Served, blobs

FOLDER = Path(__file__).parent / "folders" / "before_heads.zip"
FEATURES = {"whole": 6, "cut": 64}


@pytest.fixture
def old(serve: Callable[..., Served], tmp_path: Path) -> Served:
    """A daemon on a data folder of commit fbaf356."""
    return serve(unpacked(FOLDER, tmp_path / "old"))


def right(served: Served, model: str, job: dict[str, Any]) -> float:
    """The share of samples that nobody has trained on."""
    url = f"/v1/models/{model}/versions/{job['version']}/model.onnx"
    session = onnxruntime.InferenceSession(served.http.get(url).content)
    held = blobs(200, FEATURES[model], 3, seed=1)
    (logits,) = session.run(["logits"], {"x": held["x"]})
    return float(np.mean(logits.argmax(axis=1) == held["label"]))


def test_heads_are_computed_trained_and_chosen_without_a_new_registration(old: Served) -> None:
    for model in FEATURES:
        for kind in ("prototype", "knn", "linear"):
            job = old.train(model, head={"kind": kind}, **{"from": "base"})
            assert right(old, model, job) > 0.6, (model, kind)
    job = old.train("whole", head="auto", epochs=2)
    assert "prototype" in job["choices"]["head"]
    # A job without a head goes on from what the one with a head has left.
    assert old.train("whole", epochs=1)["state"] == "succeeded"


def test_a_job_says_that_there_is_no_head_where_nobody_had_looked_for_one(old: Served) -> None:
    job = old.ask_for_job("headless", head={"kind": "prototype"}, ignore_policy=True)["id"]
    error = old.wait_for_job(job, "failed")["error"]
    assert error["code"] == "graph_refused"
    assert "does not end in a linear layer that trains" in error["detail"]
    assert old.http.get("/v1/models/headless").json()["latest_version"] == 2
