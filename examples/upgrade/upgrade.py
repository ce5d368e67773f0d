"""A device that has learned its camera gets a better network overnight, and refuses a broken one.

    python examples/upgrade/upgrade.py [--seeds 1]

It starts its own daemon in a temporary folder, and a registry with what the vendor signs. An app
asks for the newest model all the while, and reads 397 digits with each that it gets, which no
training has seen. A network that somebody else has signed is refused by the key.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
import tempfile
import threading
import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from networks import DIGITS, better, broken, first
from onnxruntime import InferenceSession
from vendor import Vendor, registry

from cli.client import Client
from cli.demo.daemon import running

COURSE = {"epochs": 10, "batch_size": 16, "learning_rate": 2e-3}
SEEN = 700
"""How many of the device's 1,000 digits a seed draws."""
DAYS = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
ENDED = {"succeeded", "failed", "cancelled"}


def accuracy(model: bytes) -> float:
    """The share of the kept-back digits that a model reads right."""
    with np.load(DIGITS / "kept_back.npz") as data:
        images, labels = data["image"], data["label"]
    (logits,) = InferenceSession(model).run(["logits"], {"image": images})
    return float((logits.argmax(axis=1) == labels).mean())


class App(threading.Thread):
    """Asks for the newest model again and again, and measures each that it gets."""

    def __init__(self, client: Client, url: str) -> None:
        super().__init__(daemon=True)
        self._client, self._url = client, url
        self._done = threading.Event()
        self.seen: list[float] = []

    def run(self) -> None:
        """Until `stop`."""
        tag = ""
        while not self._done.wait(0.02):
            path, known = f"{self._url}/latest/model.onnx", {"If-None-Match": tag}
            answer = self._client.request("GET", path, headers=known)
            if answer.status_code != 304:
                tag = answer.headers["ETag"]
                self.seen.append(accuracy(answer.content))

    def stop(self) -> None:
        """Once what is newest now is measured."""
        time.sleep(0.5)
        self._done.set()
        self.join()


class Device:
    """A device that trains at night."""

    def __init__(self, client: Client, name: str, seed: int) -> None:
        self.client, self.seed = client, seed
        self.url = f"/v1/models/{name}"
        self.name = name

    def register(self, model: bytes) -> None:
        """The model, and what the camera saw."""
        spec = {"name": self.name, "loss": "cross_entropy", "hyperparameters": COURSE}
        files = {"model": ("first.onnx", model)}
        self.client.request("POST", "/v1/models", data={"spec": json.dumps(spec)}, files=files)
        with np.load(DIGITS / "device.npz") as data:
            rows = np.random.default_rng(self.seed).permutation(len(data["label"]))[:SEEN]
            body = io.BytesIO()
            np.savez(body, image=data["image"][rows], label=data["label"][rows])
        headers = {"Content-Type": "application/x-npz"}
        path = f"{self.url}/samples"
        self.client.request("POST", path, content=body.getvalue(), headers=headers)

    def train(self) -> None:
        """What it has done every night for a year."""
        self.ended(self.client.post(f"{self.url}/jobs", {"seed": self.seed})["id"])

    def follow(self, source: str, key: str) -> None:
        """Take what the source offers; asked at once, if it is night."""
        body = {"source": source, "keys": [key], "name": "digits"}
        self.client.request("PUT", f"{self.url}/follow", json=body)

    def followed(self) -> dict[str, Any]:
        """What came of asking the source."""
        while (found := self.client.get(f"{self.url}/follow"))["asking"]:
            time.sleep(0.05)
        answer: dict[str, Any] = found
        return answer

    def taken(self, version: int) -> int:
        """The job of the upgrade to a version of the vendor's, once it is begun."""
        while (found := self.followed())["taken"] != version:
            if found["error"] is not None:
                sys.exit(f"not taken: {found['error']}")
            time.sleep(0.05)
        return int(found["job_id"])

    def ended(self, job_id: int) -> dict[str, Any]:
        """The job, once it has ended."""
        while (job := self.client.get(f"/v1/jobs/{job_id}"))["state"] not in ENDED:
            time.sleep(0.05)
        if job["state"] != "succeeded":
            sys.exit(f"job {job_id} {job['state']}: {job['error']}")
        found: dict[str, Any] = job
        return found

    def let_it_be(self, *, night: bool) -> None:
        """Training is allowed for two hours of the day, which are now if it is night."""
        begin = datetime.now() + timedelta(hours=-1 if night else 6)
        times = {"start": f"{begin:%H:%M}", "end": f"{begin + timedelta(hours=2):%H:%M}"}
        window = {"days": DAYS, **times}
        self.client.request("PUT", "/v1/policy", json={"windows": [window]})


def overnight(device: Device, old: bytes, vendors: tuple[Vendor, Vendor], where: str) -> None:
    """One device, from its registration to the foreign network. Exits with what went wrong.

    vendors: the device's, and somebody else. where: the registry.
    """
    (vendor, foreign), tag = vendors, device.name
    spec = {"hyperparameters": {"seed": device.seed, **COURSE}}
    source = vendor.release(where, tag, better(), 2, **spec)
    device.let_it_be(night=True)
    device.register(old)
    device.train()
    app = App(device.client, device.url)
    app.start()
    device.let_it_be(night=False)
    device.follow(source, vendor.public_key)
    while not (waits := device.followed()["blocked_by"]):
        time.sleep(0.05)
    print(f"  by day nothing is asked: {waits[0]['detail']}")
    device.let_it_be(night=True)
    device.follow(source, vendor.public_key)
    print(f"  {device.ended(device.taken(2))['metrics']['reason']}")
    vendor.release(where, tag, broken(), 3, trainable=["head.*"], **spec)
    device.follow(source, vendor.public_key)
    print(f"  a broken one: {device.ended(device.taken(3))['metrics']['reason']}")
    foreign.release(where, tag, better(), 4)
    device.follow(source, vendor.public_key)
    while (refused := device.followed()["error"]) is None:
        time.sleep(0.05)
    print(f"  a foreign one: {refused['code']}")
    app.stop()
    device.client.request("DELETE", f"{device.url}/base")
    before, after = app.seen[0], app.seen[-1]
    alone, learned = accuracy(better()), ", ".join(f"{each:.1%}" for each in app.seen)
    print(f"  new network alone {alone:.1%}; the app read right, one after the other: {learned}")
    if len(app.seen) != 2 or not before <= after >= alone:
        sys.exit("the app saw a worse model")


def main() -> None:
    """Print what each device did."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1)
    chosen = parser.parse_args()
    old = first()
    with (
        tempfile.TemporaryDirectory() as folder,
        tempfile.TemporaryDirectory() as released,
        running(Path(folder)) as daemon,
        registry(Path(released)) as where,
    ):
        vendors = Vendor(Path(released), "vendor.key"), Vendor(Path(released), "foreign.key")
        for seed in range(chosen.seeds):
            print(f"device {seed}")
            overnight(Device(daemon.client, f"digits-{seed}", seed), old, vendors, where)


if __name__ == "__main__":
    main()
