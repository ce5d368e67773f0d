"""An app that learns to tag photos: most labels come late, from the person who looks at them.

honed serve &
HONED_URL=http://127.0.0.1:8471 HONED_TOKEN=… python examples/photo_tagging/tag.py
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from typing import Any

import httpx
import onnxruntime
from model import PREPROCESS, base_model
from photos import CLASSES, Photo, take
from prepare import prepare

NAME = "photo-tags"
PHOTOS, KEPT_BACK = 180, 60
ASKED = 10
"""How many photos the person is asked about first: those that the model doubts most."""


class App:
    """A photo app and its model."""

    def __init__(self, url: str, token: str) -> None:
        self.http = httpx.Client(
            base_url=url,
            headers={"Authorization": f"Bearer {token}"},
            timeout=60,
            trust_env=False,
        )
        self.url = f"/v1/models/{NAME}"

    def register(self) -> None:
        """An untrained model, and how a photo becomes its input."""
        spec = {
            "name": NAME,
            "loss": "cross_entropy",
            "classes": CLASSES,
            "preprocess": PREPROCESS,
            "hyperparameters": {"learning_rate": 0.002, "batch_size": 16, "seed": 1},
        }
        self.ask(
            "POST",
            "/v1/models",
            data={"spec": json.dumps(spec)},
            files={"model": ("model.onnx", base_model())},
        )

    def upload(self, photos: Sequence[Photo]) -> dict[str, Any]:
        """All in one form; every other one without a label yet."""
        about = [
            {"key": photo.name, "label": photo.label if number % 2 == 0 else None}
            for number, photo in enumerate(photos)
        ]
        return self.ask(
            "POST",
            f"{self.url}/samples",
            data={"samples": json.dumps(about)},
            files=[("file", (photo.name, photo.content)) for photo in photos],
        )

    def label(self, photo: Photo) -> None:
        """What the person said, by the app's own name for the photo."""
        params = {"key": photo.name}
        self.ask("PATCH", f"{self.url}/samples", params=params, json={"label": photo.label})

    def most_doubtful(self, count: int) -> list[str]:
        """Keys of the photos that are most worth asking about."""
        query = {"unlabelled": True, "order": "uncertainty", "limit": count}
        page = self.ask("GET", f"{self.url}/samples", params=query)
        return [sample["key"] for sample in page["items"]]

    def train(self, **asked: int) -> dict[str, Any]:
        """Wait for a job, whatever the device is doing."""
        wanted = {**asked, "ignore_policy": True}
        job = self.ask("POST", f"{self.url}/jobs", json=wanted)
        while job["state"] not in ("succeeded", "failed", "cancelled"):
            time.sleep(0.2)
            job = self.ask("GET", f"/v1/jobs/{job['id']}")
        if job["state"] != "succeeded":
            raise SystemExit(f"job {job['id']} {job['state']}: {job['error']}")
        return job

    def accuracy(self, photos: Sequence[Photo], *, version: str) -> float:
        """Of a version, run by plain ONNX Runtime on photos that nothing has seen."""
        described = self.ask("GET", self.url)["preprocess"][0]
        model = self.http.get(f"{self.url}/{version}/model.onnx").content
        session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
        told = session.get_modelmeta().custom_metadata_map  # of the upload, version 1, nothing
        classes = json.loads(told.get("hone.classes", json.dumps(CLASSES)))
        right = 0
        for photo in photos:
            (logits,) = session.run(["logits"], {"image": prepare(photo.content, described)})
            right += classes[int(logits.argmax())] == photo.label
        return right / len(photos)

    def ask(self, method: str, url: str, **request: Any) -> dict[str, Any]:
        """What the daemon answers."""
        answer = self.http.request(method, url, **request)
        if answer.is_error:
            raise SystemExit(f"{method} {url}: {answer.text}")
        body: dict[str, Any] = answer.json()
        return body


def main() -> None:
    """The whole story, told as it goes."""
    app = App(os.environ["HONED_URL"], os.environ["HONED_TOKEN"])
    photos, kept_back = take(PHOTOS, seed=1), take(KEPT_BACK, seed=2)
    by_key = {photo.name: photo for photo in photos}
    app.register()
    stored = app.upload(photos)
    print(f"{stored['accepted']} photos went up, half of them without a label")
    app.train(epochs=3)
    doubtful = app.most_doubtful(ASKED)
    print(f"asked first about {', '.join(doubtful[:3])}, …")
    waiting = [photo for number, photo in enumerate(photos) if number % 2]
    for photo in [*(by_key[key] for key in doubtful), *waiting]:
        app.label(photo)
    job = app.train(epochs=12)
    before = app.accuracy(kept_back, version="versions/1")
    after = app.accuracy(kept_back, version=f"versions/{job['version']}")
    print(f"accuracy on photos kept back: {before:.0%} before, {after:.0%} after")


if __name__ == "__main__":
    main()
