"""Kills at random moments of upgrades: one base serves, whole, and the upgrade goes on."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import httpx
import numpy as np
import onnxruntime
import pytest
from support import Served, blobs, mlp

KILLS = int(os.environ.get("HONE_UPGRADE_KILLS", "8"))
SEED = int(os.environ.get("HONE_UPGRADE_SEED", "1"))
LONGEST_S = 2.5
"""After an upgrade was asked for: an undisturbed one takes about as long."""
SETTINGS = {"checkpoint_interval_s": 0.05, "retry_backoff_s": 0.01}
TRAIN, HELD = blobs(200, 6, 3, seed=1), blobs(60, 6, 3, seed=2)
QUICK = {"max_steps": 150, "batch_size": 8, "learning_rate": 0.01}
PROBE = HELD["x"][:4]


class Upgrading(threading.Thread):
    """Asks for an upgrade, and sends samples meanwhile, until the daemon is gone."""

    def __init__(self, served: Served, model: bytes, hyperparameters: dict[str, Any]) -> None:
        super().__init__()
        self._url, self._token = served.url, served.token
        self._model, self._asked = model, {"hyperparameters": hyperparameters}
        self.job_id: int | None = None
        self.added = self.sent = 0

    def run(self) -> None:
        headers = {"Authorization": f"Bearer {self._token}"}
        with (
            suppress(httpx.TransportError),
            httpx.Client(base_url=self._url, headers=headers, timeout=60, verify=False) as http,
        ):
            answer = http.put(
                "/v1/models/pets/base",
                data={"spec": json.dumps(self._asked)},
                files={"model": ("new.onnx", self._model)},
            )
            assert answer.status_code == 202, answer.text
            self.job_id = answer.json()["id"]
            while True:
                x = np.random.default_rng().standard_normal(6).astype("f4").tolist()
                self.sent += 1
                sample = {"inputs": {"x": x}, "label": 1, "split": "train"}
                added = http.post("/v1/models/pets/samples", json=sample)
                self.added += added.status_code == 201
                time.sleep(0.02)


class Known:
    """What was acknowledged, and so must be there after every start."""

    def __init__(self) -> None:
        self.samples = len(TRAIN["x"])
        self.doubtful = 0
        self.served: dict[int, str] = {}
        self.job_id: int | None = None
        self.outcomes: set[str] = set()

    def note(self, asked: Upgrading) -> None:
        """What a thread was told before the daemon was gone."""
        self.samples += asked.added
        self.doubtful += asked.sent - asked.added
        self.job_id = asked.job_id or self.job_id

    def check(self, served: Served) -> None:
        """One base serves, whole; nothing acknowledged is lost; the upgrade is known."""
        latest = served.http.get("/v1/models/pets/latest").json()
        content = served.http.get("/v1/models/pets/latest/model.onnx").content
        assert hashlib.sha256(content).hexdigest() == latest["sha256"]
        (expected,) = onnxruntime.InferenceSession(content).run(["logits"], {"x": PROBE})
        base = served.http.get("/v1/models/pets/base").json()
        assert (base["base"], latest["version"] in base["versions"]) == (latest["base"], True)
        found = served.http.post(
            "/v1/models/pets/predict",
            json={"instances": [{"inputs": {"x": each}} for each in PROBE.tolist()]},
        )
        assert found.status_code == 200, found.text
        labels = [prediction["label"] for prediction in found.json()["predictions"]]
        assert labels == expected.argmax(axis=1).tolist()
        model = served.http.get("/v1/models/pets").json()
        assert 0 <= model["samples"]["train"] - self.samples <= self.doubtful
        assert model["samples"]["validation"] == len(HELD["x"])
        for number, sha256 in self.served.items():
            version = served.http.get(f"/v1/models/pets/versions/{number}").json()
            assert version["sha256"] == sha256, version
        self.served[latest["version"]] = latest["sha256"]
        self._check_job(served, base, latest)

    def _check_job(self, served: Served, base: dict[str, Any], latest: dict[str, Any]) -> None:
        if self.job_id is None:
            return
        job, upgrade = served.job(self.job_id), base["upgrade"]
        if job["state"] == "succeeded" and job["metrics"]["promoted"]:
            assert latest["version"] >= job["version"], (latest, job)
            return
        assert job["state"] != "failed", job
        if job["state"] != "cancelled":  # by an upgrade of which no answer came
            assert upgrade is not None, job


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
def test_a_kill_at_any_moment_leaves_one_base_whole(serve: Callable[..., Served]) -> None:
    chance, known = random.Random(SEED), Known()
    served = serve(**SETTINGS)
    served.register("pets", mlp(6, 8, 3))
    served.upload("pets", "train", **TRAIN)
    served.upload("pets", "validation", **HELD)
    served.train("pets", **QUICK)
    for kill in range(KILLS):
        known.check(served)
        is_blind = chance.random() < 0.3
        model = mlp(6, 1 if is_blind else chance.choice((12, 16, 20)), 3, seed=chance.randrange(3))
        steps = {**QUICK, "max_steps": 1, "learning_rate": 1e-9} if is_blind else QUICK
        asked = Upgrading(served, model, steps)
        asked.start()
        time.sleep(chance.uniform(0, LONGEST_S))
        served.stop(signal.SIGKILL)
        asked.join()
        known.note(asked)
        served = serve(**SETTINGS)
        if known.job_id is not None and kill % 3 == 0:
            known.check(served)
            ended = served.wait_for_job(known.job_id)
            known.outcomes.add(f"{ended['state']} {ended['metrics'].get('promoted')}")
    known.check(served)
    assert known.outcomes & {"succeeded True", "succeeded False"}
