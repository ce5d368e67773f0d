"""Augmentation over HTTP: registered, and trained with."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pictures import PREPROCESS, image_model, photo
from support import Served, mlp

from storage.blobs.cache_folder import ENTRY

AUGMENT = {
    "crop": 0.125,
    "rotation": 15,
    "zoom": 0.1,
    "shear": 5,
    "noise": 0.05,
    "brightness": 0.2,
    "blur": 0.5,
    "cutmix": 1,
    "erasing": 0.3,
    "mixup": 0.2,
}
RECIPE = {"max_steps": 1600, "batch_size": 8, "seed": 3, "from": "base"}


def prepared(served: Served, name: str, *, trainable: Any = None, **described: Any) -> str:
    classes = ["dark", "bright"]
    preprocess = {**PREPROCESS, **described}
    spec = {"classes": classes, "preprocess": preprocess, "trainable": trainable}
    served.register(name, image_model(), **spec)
    files = [("file", (f"{n}.png", photo([100, 150][n % 2], n))) for n in range(60)]
    about = [
        {"label": classes[n % 2], "split": "train" if n < 50 else "validation"} for n in range(60)
    ]
    answer = served.http.post(
        f"/v1/models/{name}/samples", files=files, data={"samples": json.dumps(about)}
    )
    assert answer.status_code == 201, answer.text
    return name


def test_validation_sees_samples_as_they_are(served: Served) -> None:
    plain = served.train(prepared(served, "plain"), **RECIPE | {"max_steps": 50})
    changed = served.train(
        prepared(served, "changed", augment=AUGMENT), **RECIPE | {"max_steps": 50}
    )

    assert changed["metrics"]["baseline"] == plain["metrics"]["baseline"]
    assert changed["metrics"]["train_loss"] != plain["metrics"]["train_loss"]
    first, later = (served.http.get(f"/v1/models/{n}").json() for n in ("plain", "changed"))
    assert "augment" not in first["preprocess"][0]
    assert later["preprocess"][0]["augment"] == {**AUGMENT, "views": 4}


def test_views_of_features_are_kept_and_leave_with_their_sample(
    serve: Callable[..., Served], tmp_path: Path
) -> None:
    served = serve(tmp_path / "data")
    amounts = {"crop": 0.25, "rotation": 30}
    prepared(served, "cut", trainable="head", augment=amounts)
    served.train("cut", epochs=2, seed=1)
    folder = served.data_dir / "cache" / "1" / "features"

    def rows() -> Any:
        ids = np.fromfile(folder / "entries", ENTRY)["id"]
        table = np.fromfile(folder / "rows", np.float32).reshape(len(ids), 4, -1)
        return dict(zip(ids.tolist(), table, strict=True))

    before = rows()
    assert sorted(before) == list(range(1, 61))
    assert all(len(np.unique(views, axis=0)) > 1 for views in before.values())
    assert served.http.delete("/v1/models/cut/samples/7").is_success
    after = rows()

    assert sorted(after) == [0, *(each for each in before if each != 7)]
    assert not after[0].any()
    np.testing.assert_array_equal(after[8], before[8])
    again = served.train("cut", epochs=2, seed=1)
    assert again["state"] == "succeeded"


@pytest.mark.parametrize(
    ("model", "preprocess", "more", "says"),
    [
        (image_model(), {**PREPROCESS, "augment": {"flip": 2}}, {}, "from 0 to 1"),
        (image_model(), {**PREPROCESS, "augment": {"swirl": 1}}, {}, "resized_crop"),
        (
            mlp(4, 8, 2),
            {"kind": "standardize", "augment": {"flip": 1}},
            {},
            "it has jitter",
        ),
        (
            image_model(),
            {**PREPROCESS, "augment": {"cutmix": 1}},
            {"trainable": ["head"]},
            "use mixup",
        ),
    ],
)
def test_what_does_not_suit_is_refused_and_nothing_is_stored(
    served: Served, model: bytes, preprocess: dict[str, Any], more: dict[str, Any], says: str
) -> None:
    spec = {"name": "refused", "loss": "cross_entropy", "preprocess": preprocess, **more}
    answer = served.http.post(
        "/v1/models", data={"spec": json.dumps(spec)}, files={"model": ("m.onnx", model)}
    )

    assert answer.status_code == 422
    (error,) = answer.json()["errors"]
    (name,) = preprocess["augment"]
    assert error["pointer"] == f"/spec/preprocess/augment/{name}"
    assert says in error["detail"]
    assert served.http.get("/v1/models/refused").status_code == 404
