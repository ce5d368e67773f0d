"""A model of three classes that lives: samples of four, and what it says of them."""

from __future__ import annotations

from itertools import count
from typing import Any

import numpy as np
import pytest
from support import Served, blobs, mlp

FEATURES = 6
NAMES = ["cat", "dog", "wolf"]
ENOUGH = {"epochs": 6, "learning_rate": 0.05, "seed": 3, "ignore_policy": True}
STILL = {**ENOUGH, "max_steps": 1, "learning_rate": 1e-9}
"""A job that moves nothing: what it exports is what it began with."""
FULL = blobs(400, FEATURES, 4)
"""Of four classes; models begin with three of them."""


class Pets:
    """A model of three classes with samples of them, and questions about it."""

    def __init__(self, served: Served, name: str) -> None:
        self.served, self.name = served, name
        self.url = f"/v1/models/{name}"
        gate = {"mode": "always"}
        served.register(name, mlp(FEATURES, 8, 3), classes=NAMES, gate=gate)
        self.send(FULL["label"] < 3)

    def send(self, chosen: Any, split: str | None = None) -> None:
        given = {key: array[chosen] for key, array in FULL.items()}
        assert self.served.upload(self.name, split, **given).status_code == 201

    def send_fourth(self, train: int = 20) -> None:
        """Samples of the class with index 3."""
        fourth = np.flatnonzero(FULL["label"] == 3)
        self.send(fourth[:train], "train")
        self.send(fourth[train : train + 20], "validation")

    def change(self, method: str, path: str, **options: Any) -> Any:
        return self.served.http.request(method, f"{self.url}/classes{path}", **options)

    def add(self, name: str) -> None:
        answer = self.change("POST", "", json={"name": name})
        assert answer.status_code == 201, answer.text

    @property
    def classes(self) -> dict[str, tuple[int, int]]:
        """Name → index, and samples."""
        found = self.change("GET", "").json()["items"]
        return {each["name"]: (each["index"], each["train"] + each["validation"]) for each in found}

    def version(self, number: int | str) -> dict[str, Any]:
        answer: dict[str, Any] = self.served.http.get(f"{self.url}/versions/{number}").json()
        return answer

    def train(self, **wanted: Any) -> dict[str, Any]:
        return self.served.train(self.name, **(wanted or ENOUGH))

    def infer(self, number: int) -> Any:
        """Logits of all samples."""
        entry = {"name": "x", "shape": list(FULL["x"].shape), "datatype": "FP32"}
        body = {"inputs": [{**entry, "data": FULL["x"].ravel().tolist()}]}
        answer = self.served.http.post(f"/v2/models/{self.name}/versions/{number}/infer", json=body)
        (output,) = answer.json()["outputs"]
        return np.array(output["data"]).reshape(output["shape"])


NUMBERS = count()


@pytest.fixture
def pets(served: Served) -> Pets:
    return Pets(served, f"pets-{next(NUMBERS)}")
