"""Recordings whose labels are their own rows, some time after each window."""

from __future__ import annotations

import io
import json
import re
from typing import Any

import numpy as np
import pytest
from series import send_rows, series_model
from support import Served, npz

LENGTH, HORIZON = 4, 3
FORECAST = {"channel": "temp", "horizon": HORIZON}
ROWS = np.array([[at, at / 10] for at in range(12)], np.float32)


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return re.sub(r"[\W_]+", "-", request.node.name)[-60:].strip("-")


def register(
    served: Served, name: str, forecast: Any, label: tuple[int, ...] = (1,), **spec: Any
) -> None:
    preprocess = {"kind": "windows", "stride": 1, "forecast": forecast}
    model = series_model((LENGTH, 2), label)
    served.register(name, model, **{"loss": "mse", "preprocess": preprocess, **spec})


def stored(served: Served, name: str) -> list[tuple[float, Any]]:
    """The first number and the label of each window, by its first number."""
    url = f"/v1/models/{name}/samples"
    found = []
    for sample in served.http.get(url, params={"limit": "1000"}).json()["items"]:
        arrays = np.load(io.BytesIO(served.http.get(f"{url}/{sample['id']}/content").content))
        found.append((float(arrays["x"][0, 0, 0]), sample["label"]))
    return sorted(found, key=lambda each: each[0])


def nearly(*labels: Any) -> list[Any]:
    return [None if label is None else pytest.approx(label, abs=1e-6) for label in labels]


@pytest.mark.parametrize("form", ["csv", "json", "npz"])
def test_windows_have_their_labels_from_rows_behind_them(
    served: Served, name: str, form: str
) -> None:
    register(served, name, FORECAST, features=["hum", "temp"])
    answer = send_rows(served, name, ROWS, form)
    assert answer.status_code == 201, answer.text
    starts, labels = zip(*stored(served, name), strict=True)
    assert starts == tuple(range(9))
    assert [*labels] == nearly(*([at / 10] for at in range(6, 12)), None, None, None)
    (warning,) = (warning for warning in answer.json()["warnings"] if "wait" in warning)
    assert "begin the next recording with the last 6 rows" in warning


def test_a_forecast_may_be_named_as_its_channel_is(served: Served, name: str) -> None:
    register(served, name, FORECAST, classes=["temp"])
    send_rows(served, name, ROWS)
    labels = [label for _, label in stored(served, name)]
    named = [{"temp": at / 10} for at in range(6, 12)]
    assert labels == nearly(*named, None, None, None)


def test_windows_that_waited_get_their_labels_when_the_recording_goes_on(
    served: Served, name: str
) -> None:
    register(served, name, FORECAST)
    send_rows(served, name, ROWS[:8])
    answer = send_rows(served, name, ROWS[2:]).json()
    assert (answer["accepted"], answer["duplicates"]) == (4, 3)
    labels = [label for _, label in stored(served, name)]
    assert labels == nearly(*([at / 10] for at in range(6, 12)), None, None, None)


@pytest.mark.parametrize(
    ("forecast", "label", "expected"),
    [
        ({"channel": 0, "horizon": 2}, (1,), [5]),
        ({"channel": "temp", "horizon": 3}, (3,), [0.4, 0.5, 0.6]),
        ({"horizon": 3}, (2,), [6, 0.6]),
        ({"channel": [1, "hum"], "horizon": 2}, (2, 2), [[0.4, 4], [0.5, 5]]),
    ],
    ids=["an index", "steps", "all channels", "steps of channels"],
)
def test_labels_have_the_outputs_steps_and_channels(
    served: Served, name: str, forecast: Any, label: tuple[int, ...], expected: Any
) -> None:
    register(served, name, forecast, label)
    send_rows(served, name, ROWS)
    found = stored(served, name)[0][1]
    assert np.array(found) == pytest.approx(np.array(expected), abs=1e-6)


@pytest.mark.parametrize(
    ("forecast", "reason"),
    [
        ({"channel": "temp"}, "horizon is a whole number of rows from 1"),
        ({"channel": "temp", "horizon": 0}, "horizon is a whole number of rows from 1"),
        ({"channel": 2, "horizon": 1}, "there is no channel 2; there are 0 to 1"),
        ({"channel": [0, 0], "horizon": 1}, "a list of different ones"),
        ({"channel": 1.5, "horizon": 1}, "channel is the name of a column, its index"),
        ({"channels": 1, "horizon": 1}, "unknown field 'channels'"),
        ({"horizon": 5}, "the model's labels are float32 [1]; a forecast of 2 channels is"),
        ("temp", "a forecast has a channel and a horizon"),
        ({"channel": "pressure", "horizon": 1}, "no channel 'pressure'; there are ['hum', 'temp']"),
    ],
)
def test_a_forecast_that_does_not_fit_is_refused(
    served: Served, forecast: Any, reason: str
) -> None:
    preprocess = {"kind": "windows", "forecast": forecast}
    spec = {"name": "refused", "loss": "mse", "features": ["hum", "temp"], "preprocess": preprocess}
    model = series_model((LENGTH, 2), (1,))
    refused = served.http.post(
        "/v1/models", data={"spec": json.dumps(spec)}, files={"model": ("m.onnx", model)}
    )
    assert refused.status_code == 422
    assert reason in refused.json()["errors"][0]["detail"]


def test_recordings_that_tell_no_labels_are_refused(served: Served, name: str) -> None:
    register(served, name, FORECAST)
    url = f"/v1/models/{name}/samples"
    table = "hum,temp,label\n" + "1,2,3\n" * 9
    for content, kind, reason in (
        (table, "text/csv", "labels are made of the recording's own rows"),
        (json.dumps({"recording": ROWS.tolist()}), "application/json", "the model has no features"),
        (table.replace("temp", "heat").replace(",label", ""), "text/csv", "no channel 'temp'"),
        (npz(x=ROWS, key=np.arange(12)), "application/x-npz", "a window has many rows"),
    ):
        refused = served.http.post(url, content=content, headers={"Content-Type": kind})
        assert refused.status_code == 422
        assert reason in refused.text
    assert stored(served, name) == []
    other = {"kind": "windows", "stride": 1, "forecast": FORECAST, "label": "last"}
    refused = served.http.patch(f"/v1/models/{name}", json={"preprocess": [other]})
    (error,) = refused.json()["errors"]
    assert error["pointer"].endswith("/label"), error


@pytest.mark.parametrize(
    ("body", "pointer", "reason"),
    [
        ({"recording": [[1, 2]] * 8 + [[1]]}, "/recording/8", "row 8 has shape [1], the model"),
        ({"recording": 5}, "/recording", "a recording is a list of rows"),
        ({"recording": [], "split": "train"}, "/split", "recording is the only field"),
        ({"recording": [[1, 2]] * 3}, "", "the recording has 3 rows, and a window of this model 4"),
    ],
    ids=["a short row", "no list", "a field more", "a short recording"],
)
def test_a_recording_in_json_is_refused_by_what_is_wrong(
    served: Served, name: str, body: Any, pointer: str, reason: str
) -> None:
    register(served, name, {"channel": 1, "horizon": 1})
    refused = served.http.post(f"/v1/models/{name}/samples", json=body)
    assert refused.status_code == 422
    (error,) = refused.json()["errors"]
    assert error["pointer"] == pointer
    assert reason in error["detail"]
    assert stored(served, name) == []


def test_a_version_is_compared_with_the_last_value_of_the_channel(
    served: Served, name: str
) -> None:
    register(served, name, FORECAST)
    rows = np.random.default_rng(0).standard_normal((400, 2)).astype(np.float32)
    lines = [
        f"{hum},{temp},{'validation' if at >= 300 else 'train'}"
        for at, (hum, temp) in enumerate(rows.tolist())
    ]
    served.http.post(
        f"/v1/models/{name}/samples",
        content="\n".join(["hum,temp,split", *lines]),
        headers={"Content-Type": "text/csv"},
    ).raise_for_status()
    served.train(name, max_steps=1)
    verdict = served.http.get(f"/v1/models/{name}/versions/2").json()["verdict"]
    last = np.arange(300 + LENGTH - 1, 400 - HORIZON)
    error = np.abs(rows[last + HORIZON, 1] - rows[last, 1]).mean()
    assert verdict["last_value"]["baseline"] == pytest.approx(error, rel=1e-5)
    answer = served.http.post(
        f"/v1/models/{name}/predict",
        content=npz(x=rows[:10]),
        headers={"Content-Type": "application/x-npz"},
    ).json()
    assert len(answer["predictions"]) == 7
