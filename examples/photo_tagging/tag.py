"""An app that learns to tag photos: most labels come late, from the person who looks at them.

honed serve &
HONED_URL=http://127.0.0.1:8471 HONED_TOKEN=… python examples/photo_tagging/tag.py
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import onnxruntime
from model import PREPROCESS, base_model
from photos import CLASSES, Photo, take
from prepare import prepare

sys.path.append(str(Path(__file__).parents[1]))
from asking import ask, honed, register

NAME = "photo-tags"
SAMPLES = f"{NAME}/samples"
PHOTOS, KEPT_BACK = 180, 60
ASKED = 10
"""How many photos the person is asked about first: those that the model doubts most."""


def register_model() -> None:
    """An untrained model, and how a photo becomes its input."""
    recipe = ("--learning-rate", "0.002", "--batch-size", "16", "--seed", "1")
    about = {"preprocess": PREPROCESS, "classes": CLASSES}
    register(NAME, base_model(), "cross_entropy", *recipe, **about)


def upload(photos: Sequence[Photo]) -> dict[str, Any]:
    """All in one form; every other one without a label yet."""
    about = [
        {"key": photo.name, "label": photo.label if number % 2 == 0 else None}
        for number, photo in enumerate(photos)
    ]
    files = [("file", (photo.name, photo.content)) for photo in photos]
    return ask("POST", SAMPLES, data={"samples": json.dumps(about)}, files=files).json()


def label(photo: Photo) -> None:
    """What the person said, by the app's own name for the photo."""
    ask("PATCH", SAMPLES, params={"key": photo.name}, json={"label": photo.label})


def most_doubtful(count: int) -> list[str]:
    """Keys of the photos that are most worth asking about."""
    query = {"unlabelled": True, "order": "uncertainty", "limit": count}
    return [sample["key"] for sample in ask("GET", SAMPLES, params=query).json()["items"]]


def train(*options: str) -> dict[str, Any]:
    """Wait for a job, whatever the device is doing."""
    return json.loads(honed("train", NAME, *options, "--watch", "--now", "--json"))


def accuracy(photos: Sequence[Photo], *, version: int) -> float:
    """Of a version, run by plain ONNX Runtime on photos that nothing has seen."""
    described = ask("GET", NAME).json()["preprocess"][0]
    model = ask("GET", f"{NAME}/versions/{version}/model.onnx").content
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    told = session.get_modelmeta().custom_metadata_map  # of the upload, version 1, nothing
    classes = json.loads(told.get("hone.classes", json.dumps(CLASSES)))
    right = 0
    for photo in photos:
        (logits,) = session.run(["logits"], {"image": prepare(photo.content, described)})
        right += classes[int(logits.argmax())] == photo.label
    return right / len(photos)


def main() -> None:
    """The whole story, told as it goes."""
    photos, kept_back = take(PHOTOS, seed=1), take(KEPT_BACK, seed=2)
    by_key = {photo.name: photo for photo in photos}
    register_model()
    stored = upload(photos)
    print(f"{stored['accepted']} photos went up, half of them without a label")
    train("--epochs=3")
    doubtful = most_doubtful(ASKED)
    print(f"asked first about {', '.join(doubtful[:3])}, …")
    waiting = [photo for number, photo in enumerate(photos) if number % 2]
    for photo in [*(by_key[key] for key in doubtful), *waiting]:
        label(photo)
    job = train("--epochs=12")
    before = accuracy(kept_back, version=1)
    after = accuracy(kept_back, version=job["version"])
    print(f"accuracy on photos kept back: {before:.0%} before, {after:.0%} after")


if __name__ == "__main__":
    main()
