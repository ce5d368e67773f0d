"""A model that takes part in federated training, as a federation and its person see it."""

from __future__ import annotations

import json
from typing import Any

import httpx
import numpy as np
from safetensors.numpy import load, save
from support import ENDED, Served, blobs, mlp, wait_until

FEATURES, CLASSES = 16, 4
FEDERATION = "fl.example:9092"
BINARY = {"Content-Type": "application/octet-stream"}
Tensors = dict[str, np.ndarray]


class Device:
    """One model of a daemon, as a federation sees it."""

    def __init__(self, served: Served, model: str) -> None:
        self.served, self.model = served, model
        self.http = served.http
        self.path = f"/v1/models/{model}"

    def allow(self, **federation: Any) -> httpx.Response:
        """Consent to the federation, and more that is given."""
        body = {"allowed": True, "superlink": FEDERATION, **federation}
        return self.http.patch(self.path, json={"federation": body})

    def parameters(self, **query: int) -> Tensors:
        answer = self.http.get(f"{self.path}/parameters", params=query)
        return load(answer.raise_for_status().content)

    def ask(self, parameters: Tensors | bytes, **spec: Any) -> httpx.Response:
        """Ask for a round."""
        content = parameters if isinstance(parameters, bytes) else save(parameters)
        return self.http.post(
            f"{self.path}/rounds",
            data={"spec": json.dumps({"round": 1, "learning_rate": 0.01, **spec})},
            files={"parameters": ("parameters.safetensors", content)},
        )

    def begin(self, parameters: Tensors, **spec: Any) -> dict[str, Any]:
        answer = self.ask(parameters, **spec)
        assert answer.status_code == 202, answer.text
        return answer.json()

    def round(self, parameters: Tensors, **spec: Any) -> dict[str, Any]:
        """A round to its end."""
        return self.ended(self.begin(parameters, **spec)["id"])

    def show(self, round_id: int) -> dict[str, Any]:
        return self.http.get(f"/v1/rounds/{round_id}").raise_for_status().json()

    def ended(self, round_id: int) -> dict[str, Any]:
        def state() -> dict[str, Any] | None:
            shown = self.show(round_id)
            return shown if shown["state"] in ENDED else None

        return wait_until(state, f"round {round_id} to end")

    def paused(self, round_id: int) -> dict[str, Any] | None:
        shown = self.show(round_id)
        return shown if shown["state"] == "paused" else None

    def stepping(self, round_id: int, *, least: int = 1) -> None:
        """Return once it has done so many steps."""
        wait_until(lambda: self.show(round_id)["progress"]["step"] >= least, "steps")

    def update(self, round_id: int) -> Tensors:
        return load(self.http.get(f"/v1/rounds/{round_id}/update").raise_for_status().read())

    def send(self, parameters: Tensors | bytes, **query: str) -> httpx.Response:
        """Send parameters to become a version."""
        return self._put(parameters, "PUT", "parameters", query)

    def measure(self, parameters: Tensors | bytes, **query: str) -> httpx.Response:
        return self._put(parameters, "POST", "evaluate", query)

    def _put(
        self, parameters: Tensors | bytes, method: str, path: str, query: dict[str, str]
    ) -> httpx.Response:
        content = parameters if isinstance(parameters, bytes) else save(parameters)
        return self.http.request(
            method, f"{self.path}/{path}", content=content, params=query, headers=BINARY
        )

    def federation(self) -> dict[str, Any]:
        return self.http.get(f"{self.path}/federation").raise_for_status().json()


def make_device(served: Served, model: str, *, samples: int = 400, hidden: int = 32) -> Device:
    """A device with a model and samples, that nobody has allowed anything yet."""
    served.register(model, mlp(FEATURES, hidden, CLASSES))
    if samples:
        served.upload(model, **blobs(samples, FEATURES, CLASSES))
    return Device(served, model)
