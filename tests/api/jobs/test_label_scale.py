"""Models of numbers learn labels in any unit by default, and apps get that unit."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper
from series import series_model
from support import Served, mlp

LENGTH, TRAIN = 24, 600
OFF = {"standardize_labels": False}
MEANS, DEVIATIONS = np.array([50, 1e5, 1e-3]), np.array([10, 2e4, 2e-4])
Rows = dict[str, np.ndarray]


def windows(count: int = 750) -> Rows:
    """Windows of a series of 50 ± 10, and the number after each."""
    t = np.arange(count + LENGTH)
    noise = np.random.default_rng(0).standard_normal(len(t)) / 2
    series = (50 + 9 * np.sin(t / 7) + 9 * np.sin(t / 17 + 1) + noise).astype(np.float32)
    x = np.stack([series[at : at + LENGTH, None] for at in range(count)])
    return {"x": x, "label": series[LENGTH:, None]}


def plain(outputs: int = 1) -> Rows:
    """The same with standardized inputs, and labels of several units."""
    data = windows()
    standard = (data["label"] - 50) / 10
    label = (standard * DEVIATIONS + MEANS)[:, :outputs].astype(np.float32)
    return {"x": (data["x"][:, :, 0] - 50) / 10, "label": label}


def registered(served: Served, name: str, model: bytes, data: Rows, **spec: Any) -> str:
    served.register(name, model, **{"loss": "mse", **spec})
    parts = {"train": slice(None, TRAIN), "validation": slice(TRAIN, None)}
    for split, part in parts.items():
        rows = {key: array[part] for key, array in data.items()}
        served.upload(name, split=split, **rows).raise_for_status()
    return name


def version(served: Served, name: str, number: int = 2) -> dict[str, Any]:
    return served.http.get(f"/v1/models/{name}/versions/{number}").raise_for_status().json()


def content(served: Served, name: str, which: int | str = 2, **query: str) -> bytes:
    path = "latest" if which == "latest" else f"versions/{which}"
    answer = served.http.get(f"/v1/models/{name}/{path}/model.onnx", params=query)
    return answer.raise_for_status().content


def tensors(model: bytes, names: Iterable[str] | None = None) -> Rows:
    graph = onnx.load_from_string(model).graph
    found = {each.name: numpy_helper.to_array(each) for each in graph.initializer}
    return {name: found[name] for name in names or found}


def scale_of(model: bytes) -> list[Any]:
    found = tensors(model, ("hone.label_scale", "hone.label_mean"))
    return [array.ravel().tolist() for array in found.values()]


def r2(model: bytes, data: Rows) -> np.ndarray:
    """Of each output, on the validation samples."""
    x, truth = (data[key][TRAIN:] for key in ("x", "label"))
    output = onnxruntime.InferenceSession(model).run(None, {"x": x})[0]
    error = np.square(output.astype(float) - truth).mean(axis=0)
    found: np.ndarray = 1 - error / truth.astype(float).var(axis=0)
    return found


def test_a_forecast_is_learned_by_default_as_if_its_labels_had_been_scaled_by_hand(
    served: Served,
) -> None:
    data = windows()
    label = data["label"]
    by_hand = (label - label[:TRAIN].mean()) / label[:TRAIN].std()
    found = {}
    for name, labels, asked in (
        ("forecast", label, {}),
        ("forecast-by-hand", by_hand, OFF),
        ("forecast-unscaled", label, OFF),
    ):
        rows = {**data, "label": labels}
        registered(
            served, name, series_model((LENGTH, 1), (1,)), rows, preprocess={"kind": "windows"}
        )
        served.train(name, seed=1, **asked)
        found[name] = version(served, name)
    scores = {name: made["metrics"]["r2"] for name, made in found.items()}
    assert scores["forecast"] == pytest.approx(scores["forecast-by-hand"], abs=0.01)
    assert scores["forecast"] > 0.97
    assert scores["forecast-unscaled"] < 0
    verdict = found["forecast"]["verdict"]
    assert verdict["mean_label"]["outcome"] == "better"
    mean = np.abs(label[TRAIN:] - label[:TRAIN].mean()).mean()
    last = np.abs(label[TRAIN:] - data["x"][TRAIN:, -1]).mean()
    for name, error in (("mean_label", mean), ("last_value", last)):
        assert verdict[name]["baseline"] == pytest.approx(error, rel=1e-5)
    made = found["forecast-unscaled"]
    assert made["promoted"]
    assert (
        "; it is worse than the mean of the training labels, whose validation mae is"
        in (made["reason"])
    )
    assert "; it is worse than the last value of the window, whose" in made["reason"]


@pytest.mark.parametrize(
    ("layout", "window", "label"),
    [
        ("time_first", (8, 2), (3, 2)),
        ("channels_first", (2, 8), (2,)),
        ("time_first", (8, 1), (3,)),
        ("time_first", (8, 2), (3,)),
    ],
    ids=["steps", "channels first", "steps of one channel", "not of the window's channels"],
)
def test_the_last_value_of_a_window_is_that_of_the_labels_channels(
    layout: str, window: tuple[int, ...], label: tuple[int, ...], served: Served
) -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal((750, *shape)).astype(np.float32) for shape in (window, label))
    name = "-".join(["last", layout, *map(str, (*window, *label))])
    preprocess = {"kind": "windows", "layout": layout}
    rows = {"x": x + 5, "label": y + 5}
    registered(served, name, series_model(window, label), rows, preprocess=preprocess)
    served.train(name, max_steps=1)
    verdict = version(served, name)["verdict"]
    truth = rows["label"][TRAIN:]
    by_time = rows["x"][TRAIN:].swapaxes(1, 2) if layout == "channels_first" else rows["x"][TRAIN:]
    last = by_time[:, -1]
    if label == (3, 2):
        last = last[:, None]
    if label == (3,) and window == (8, 2):
        assert "last_value" not in verdict
    else:
        error = np.abs(truth - last).mean()
        assert verdict["last_value"]["baseline"] == pytest.approx(error, rel=1e-5)


def test_each_output_has_a_unit_of_its_own_and_so_has_every_file(served: Served) -> None:
    data = plain(3)
    name = registered(served, "units", mlp(LENGTH, 32, 3), data)
    served.train(name, seed=1)
    assert (r2(content(served, name), data) > 0.97).all()
    scale, _ = scale_of(content(served, name))
    assert np.array(scale) / DEVIATIONS == pytest.approx(np.ones(3), rel=0.6)
    assert (r2(content(served, name, "latest", variant="int8"), data) > 0.9).all()


def test_hubers_loss_is_that_of_the_labels_unit(served: Served) -> None:
    data = plain()
    name = registered(served, "huber-unit", mlp(LENGTH, 32, 1), data, loss="huber")
    job = served.train(name, seed=1)
    made = version(served, name)["metrics"]
    x, truth = (data[key][TRAIN:] for key in ("x", "label"))
    output = onnxruntime.InferenceSession(content(served, name)).run(None, {"x": x})[0]
    error = np.abs(output.astype(float) - truth)
    near = np.minimum(error, 1)
    for metrics in (made, job["metrics"]["validation"]):
        assert metrics["loss"] == pytest.approx((near * (error - near / 2)).mean(), rel=1e-3)
        assert metrics["r2"] > 0.97


def test_jobs_go_on_from_latest_with_its_scale(served: Served) -> None:
    data = plain()
    name = registered(served, "goes-on", mlp(LENGTH, 32, 1), data)
    first = served.train(name, seed=1)
    before = version(served, name)["metrics"]
    job = served.train(name, epochs=1, learning_rate=1e-5, l2_sp=0.01)
    assert scale_of(content(served, name, 3)) == scale_of(content(served, name, 2))
    assert job["metrics"]["baseline"]["mae"] == pytest.approx(before["mae"], rel=1e-4)
    assert job["metrics"]["validation"]["mae"] == pytest.approx(before["mae"], rel=0.05)
    assert (first["version"], job["version"]) == (2, 3)


def test_a_model_that_knows_its_labels_keeps_their_unit(served: Served) -> None:
    data = plain()
    rows = np.column_stack([data["x"][:TRAIN], np.ones(TRAIN)])
    solved = np.linalg.lstsq(rows, data["label"][:TRAIN], rcond=None)[0].astype(np.float32)
    model = onnx.load_from_string(mlp(LENGTH, 1))
    for tensor, array in zip(model.graph.initializer, (solved[:-1], solved[-1]), strict=True):
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    name = registered(served, "knows", model.SerializeToString(), data)
    job = served.train(name, seed=1)
    assert scale_of(content(served, name)) == [[1], [0]]
    was, now = (job["metrics"][each]["r2"] for each in ("baseline", "validation"))
    assert was > 0.98
    assert now > was - 0.005


def test_large_labels_are_warned_of_only_where_they_are_not_scaled(served: Served) -> None:
    data = plain()
    data["label"] = data["label"] * 1000
    name = registered(served, "large-labels", mlp(LENGTH, 1), data)
    assert served.train(name, max_steps=1)["metrics"]["warnings"] == []
    (warning,) = served.train(name, max_steps=1, **OFF)["metrics"]["warnings"]
    assert warning.startswith("labels are as large as ")


def test_labels_without_a_unit_are_not_standardized(served: Served) -> None:
    served.register("no-unit", mlp(LENGTH, 3))
    served.upload("no-unit", x=plain()["x"], label=np.arange(750) % 3).raise_for_status()
    answer = served.http.post("/v1/models/no-unit/jobs", json={"standardize_labels": True})
    (problem,) = answer.json()["errors"]
    assert problem["pointer"] == "/standardize_labels"
    assert problem["detail"].endswith(
        "is of mse, l1, huber, the model's loss is cross_entropy; leave it out"
    )
