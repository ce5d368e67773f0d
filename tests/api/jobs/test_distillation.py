"""Jobs that keep to what the version before answers (learning without forgetting)."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
from interruption import interrupted, weights_of
from support import Served, mlp

CLASSES, FEATURES, TRAINED = 4, 8, 3


def drawn(seed: int, count: int, classes: range) -> tuple[Any, Any]:
    """Clouds around a corner for each class."""
    rng = np.random.default_rng(seed)
    label = rng.integers(classes.start, classes.stop, count)
    x = 0.5 * rng.standard_normal((count, FEATURES)).astype(np.float32)
    x[np.arange(count), label] += 2
    return x.astype(np.float32), label


def model_of_three(served: Served, name: str) -> None:
    """Trained on three classes; what it learned from is gone, and a fourth has come."""
    names = [str(number) for number in range(TRAINED)]
    served.register(name, mlp(FEATURES, 16, TRAINED), classes=names, gate={"mode": "always"})
    x, label = drawn(0, 200, range(TRAINED))
    served.upload(name, split="train", x=x, label=label).raise_for_status()
    served.train(name, epochs=20, learning_rate=0.01, seed=1)
    url = f"/v1/models/{name}"
    served.http.delete(f"{url}/samples", params={"all": True}).raise_for_status()
    served.http.post(f"{url}/classes", json={"name": str(TRAINED)}).raise_for_status()
    x, label = drawn(1, 40, range(TRAINED, CLASSES))
    served.upload(name, split="train", x=x, label=label).raise_for_status()


def right(served: Served, name: str, version: int, classes: range) -> float:
    content = served.http.get(f"/v1/models/{name}/versions/{version}/model.onnx").content
    x, label = drawn(2, 200, classes)
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    return float((session.run(["logits"], {"x": x})[0].argmax(axis=1) == label).mean())


def test_what_was_learned_before_stays_without_a_sample_of_it(served: Served) -> None:
    model_of_three(served, "forgetful")
    asked: dict[str, Any] = {"epochs": 40, "learning_rate": 0.01, "seed": 2, "from": "latest"}
    plain = served.train("forgetful", **asked)["version"]
    served.http.post("/v1/models/forgetful/rollback").raise_for_status()
    kept = served.train("forgetful", **asked, distillation=0.3)["version"]
    old, new = range(TRAINED), range(TRAINED, CLASSES)
    assert right(served, "forgetful", kept, new) > 0.75
    assert right(served, "forgetful", kept, old) > right(served, "forgetful", plain, old) + 0.3


def test_a_job_that_is_paused_and_killed_asks_the_same_teacher_again(served: Served) -> None:
    model_of_three(served, "interrupted-teacher")
    asked = {"epochs": 600, "batch_size": 8, "seed": 3, "distillation": 2}
    calm = served.train("interrupted-teacher", **asked)
    served.http.post("/v1/models/interrupted-teacher/rollback").raise_for_status()
    job = served.ask_for_job("interrupted-teacher", **asked)["id"]
    hasty = interrupted(served, job)
    assert weights_of(served, calm) == weights_of(served, hasty)
