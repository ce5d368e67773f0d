"""Two versions are compared on today's samples, and say which changed sides."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from support import Served, blobs, mlp


def trained(served: Served, name: str, **arrays: NDArray[Any]) -> None:
    """A model with samples, and versions 2 and 3, of which the second has learned more."""
    served.upload(name, split="train", **arrays)
    served.upload(name, split="validation", **{k: v[::4] + 0 for k, v in shifted(arrays).items()})
    served.train(name, epochs=1, learning_rate=1e-4, seed=1, ignore_policy=True)
    served.train(name, epochs=10, learning_rate=0.01, seed=1, ignore_policy=True)


def shifted(arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Other inputs with the same labels: equal ones would be the same samples."""
    return {k: v + np.float32(0.01) if v.dtype.kind == "f" else v for k, v in arrays.items()}


def compare(served: Served, name: str, pair: str, **params: Any) -> dict[str, Any]:
    before, after = pair.split()
    path = f"/v1/models/{name}/versions/{before}/comparison/{after}"
    answer = served.http.get(path, params=params)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_samples_that_changed_sides_explain_the_difference(served: Served) -> None:
    served.register("sides", mlp(8, 16, 4), classes=["a", "b", "c", "d"])
    trained(served, "sides", **blobs(400, 8, 4))

    found = compare(served, "sides", "1 3")

    before, after = found["before"], found["after"]
    assert found["by"] == "class"
    assert before["samples"] == after["samples"] == found["samples"] == 100
    gained = found["better"]["total"] - found["worse"]["total"]
    assert gained == round(100 * (after["accuracy"] - before["accuracy"])) > 0
    assert np.trace(after["confusion_matrix"]) == round(100 * after["accuracy"])
    for each in found["better"]["items"]:
        assert each["after"] == each["label"] != each["before"]
        sample = served.http.get(f"/v1/models/sides/samples/{each['id']}").json()
        assert (sample["label"], sample["split"]) == (each["label"], "validation")
    drops = [entry["before_error"] - entry["after_error"] for entry in found["better"]["items"]]
    assert drops == sorted(drops, reverse=True)
    other_way = compare(served, "sides", "3 1")
    assert other_way["worse"]["total"] == found["better"]["total"]


def test_a_comparison_follows_the_labels_and_keeps_to_its_limit(served: Served) -> None:
    served.register("follows", mlp(8, 16, 4))
    trained(served, "follows", **blobs(400, 8, 4))
    first = compare(served, "follows", "1 3", limit=1)
    assert len(first["better"]["items"]) == 1 < first["better"]["total"]
    changed = first["better"]["items"][0]
    assert compare(served, "follows", "1 3", limit=1) == first

    other = {"label": (changed["after"] + 1) % 4}
    served.http.patch(f"/v1/models/follows/samples/{changed['id']}", json=other).raise_for_status()

    again = compare(served, "follows", "1 3")
    assert changed["id"] not in [entry["id"] for entry in again["better"]["items"]]


def test_versions_that_give_numbers_are_compared_by_their_errors(served: Served) -> None:
    served.register("numbers", mlp(4, 8, 1), loss="mse")
    inputs = blobs(200, 4, 3)
    name = next(key for key in inputs if key != "label")
    x = inputs[name]
    trained(served, "numbers", **{name: x, "label": x[:, :1] * 2})

    found = compare(served, "numbers", "1 3")

    assert found["by"] == "absolute"
    assert found["before"]["mae"] > found["after"]["mae"]
    assert set(found["after"]["error_quantiles"]) == set(found["before"]["error_quantiles"])
    assert found["worse"]["total"] + found["better"]["total"] <= found["samples"]
    each = found["better"]["items"][0]
    assert abs(each["after"][0] - each["label"][0]) == np.float32(each["after_error"])
    assert each["before_error"] > each["after_error"]


def test_without_validation_samples_there_is_nothing_to_compare(served: Served) -> None:
    served.register("none", mlp(8, 16, 4))
    found = compare(served, "none", "1 1")
    assert (found["samples"], found["before"], found["worse"]["total"]) == (0, {}, 0)
    assert served.http.get("/v1/models/none/versions/1/comparison/7").status_code == 404
