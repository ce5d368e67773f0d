"""Preprocessing is changed as far as neither samples nor versions hang on it."""

from __future__ import annotations

from typing import Any

import httpx
from pictures import PREPROCESS, image_model, photo
from support import Served


def change(served: Served, name: str, *given: dict[str, Any]) -> httpx.Response:
    return served.http.patch(f"/v1/models/{name}", json={"preprocess": list(given)})


def test_everything_changes_before_there_are_samples(served: Served) -> None:
    served.register("before", image_model(), preprocess=PREPROCESS)

    changed = change(served, "before", {"kind": "image", "channels": "gray", "scale": 1})

    assert changed.status_code == 200, changed.text
    (now,) = changed.json()["preprocess"]
    assert (now["scale"], now["mean"], now["std"]) == (1, [0], [1])
    wrong = change(served, "before", {"kind": "image", "channels": "gray", "std": [0]})
    assert [error["pointer"] for error in wrong.json()["errors"]] == ["/preprocess/std"]
    assert change(served, "before").json()["preprocess"] == []


def test_only_augment_changes_once_there_are_samples(served: Served) -> None:
    served.register("settled", image_model(), preprocess=PREPROCESS)
    headers = {"Content-Type": "image/png"}
    served.http.post("/v1/models/settled/samples", content=photo(90, 1), headers=headers)
    (now,) = served.http.get("/v1/models/settled").json()["preprocess"]

    refused = change(served, "settled", {**now, "scale": 128})

    assert refused.status_code == 422
    (error,) = refused.json()["errors"]
    assert error["pointer"] == "/preprocess/scale"
    assert "were made with scale 255" in error["detail"]
    assert change(served, "settled").status_code == 422
    changed = change(served, "settled", {**now, "augment": {"flip": 0.5}})
    assert changed.status_code == 200, changed.text
    assert changed.json()["preprocess"][0]["augment"]["flip"] == 0.5
