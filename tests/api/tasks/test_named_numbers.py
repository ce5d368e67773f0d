"""A model of several numbers with names through a real daemon: labels come by name, in parts."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from support import Served, mlp, npz

NAMES = ["temperature", "humidity"]
URL = "/v1/models/greenhouse"


def samples(count: int, seed: int) -> list[dict[str, Any]]:
    """Of inputs x: 20 + 5·x0 degrees, and 60 + 20·x1 per cent, each of which two of three know."""
    numbers = np.random.default_rng(seed).normal(size=(count, 8)).round(3)
    made = []
    for place, row in enumerate(numbers.tolist()):
        label = {"temperature": 20 + 5 * row[0], "humidity": 60 + 20 * row[1]}
        if place % 3:
            label[NAMES[place % 2]] = None
        split = "train" if place % 4 else "validation"
        made.append({"inputs": {"x": row}, "label": label, "split": split})
    return made


@pytest.fixture(scope="module")
def greenhouse(served: Served) -> Iterator[Served]:
    served.register("greenhouse", mlp(8, 16, 2), loss="mse", classes=NAMES)
    served.http.post(f"{URL}/samples", json={"samples": samples(240, 1)}).raise_for_status()
    served.train("greenhouse", epochs=60, learning_rate=0.01, seed=1)
    return served


def test_a_model_learns_numbers_of_which_samples_know_some(greenhouse: Served) -> None:
    version = greenhouse.http.get(f"{URL}/versions/2").json()
    assert version["promoted"], version["reason"]
    assert version["classes"] == NAMES
    assert version["metrics"]["r2"] > 0.9
    assert version["metrics"]["mae"] < 4
    assert version["verdict"]["mean_label"]["outcome"] == "better"
    of_names = version["metrics"]["mae_by_label"]
    assert of_names[0] < of_names[1]  # the unit of humidity is smaller
    asked = {"instances": [{"inputs": {"x": [at, -at, 0, 0, 0, 0, 0, 0]}} for at in (1, 0)]}
    told = greenhouse.http.post(f"{URL}/predict", json=asked).json()["predictions"]
    assert [list(each["values"]) for each in told] == [NAMES, NAMES]
    assert told[0]["values"]["temperature"] == pytest.approx(25, abs=3)
    assert told[0]["values"]["humidity"] == pytest.approx(40, abs=8)


@pytest.mark.parametrize(("at_most", "word"), [(100, "at most 100"), (0.001, "above 0.001")])
def test_the_error_of_a_number_may_be_bounded(
    greenhouse: Served, at_most: float, word: str
) -> None:
    guard = {"metric": "mae", "label": "humidity", "at_most": at_most}
    change = {"gate": {"guard": [guard]}}
    kept = greenhouse.http.patch(URL, json=change).raise_for_status().json()["gate"]["guard"]
    assert kept == [guard | {"at_least": None}]
    number = greenhouse.train("greenhouse", epochs=5, learning_rate=0.003, seed=2)["version"]
    version = greenhouse.http.get(f"{URL}/versions/{number}").json()
    figure = version["metrics"]["mae_by_label"][1]
    assert f"its mae of 'humidity' is {figure:.4g}, {word}" in version["reason"]
    assert version["promoted"] is (at_most > 1)
    assert version["verdict"]["guard_0"] == kept[0] | {
        "candidate": figure,
        "outcome": "same" if at_most > 1 else "worse",
    }
    greenhouse.http.patch(URL, json={"gate": {"guard": None}}).raise_for_status()


@pytest.mark.parametrize("metric", ["mae", "r2"])
def test_the_gate_may_judge_by_one_number(greenhouse: Served, metric: str) -> None:
    gate = {"metric": metric, "label": "humidity"}
    greenhouse.http.patch(URL, json={"gate": gate}).raise_for_status()
    number = greenhouse.train("greenhouse", epochs=5, learning_rate=0.003, seed=2)["version"]
    version = greenhouse.http.get(f"{URL}/versions/{number}").json()
    found = version["verdict"]["validation"]
    assert found["candidate"] == version["metrics"][f"{metric}_by_label"][1]
    assert f"validation {metric} of 'humidity' went from" in version["reason"]
    beside = version["verdict"]["mean_label"]
    assert (beside["outcome"], beside["candidate"]) == ("better", found["candidate"])
    greenhouse.http.patch(URL, json={"gate": {"metric": None, "label": None}}).raise_for_status()


def test_a_number_without_a_name_is_not_judged_by(served: Served) -> None:
    served.register("numberless", mlp(8, 2), loss="l1")
    change = {"gate": {"metric": "mae", "label": 0}}
    answer = served.http.patch("/v1/models/numberless", json=change)
    (problem,) = answer.json()["errors"]
    assert problem["detail"] == "mae of one number needs names; give them in classes"


def label(answer: Any) -> Any:
    return answer.raise_for_status().json()["label"]


def stored(served: Served, url: str, **upload: Any) -> list[Any]:
    """The labels of uploaded samples as they are shown."""
    first, last = served.http.post(f"{url}/samples", **upload).raise_for_status().json()["ids"]
    return [label(served.http.get(f"{url}/samples/{number}")) for number in range(first, last + 1)]


def inputs(seed: int) -> dict[str, Any]:
    return {"x": np.random.default_rng(seed).normal(size=8).round(3).tolist()}


def test_numbers_come_by_name_or_in_order_and_are_shown_by_name(greenhouse: Served) -> None:
    both = {"temperature": 21.5, "humidity": 40}
    sent = [both, [21.5, 40], {"temperature": 21.5}, [None, 40], {"humidity": None}, None]
    body = [{"inputs": inputs(100 + at), "label": each} for at, each in enumerate(sent)]
    assert stored(greenhouse, URL, json={"samples": body}) == [
        both,
        both,
        {"temperature": 21.5, "humidity": None},
        {"temperature": None, "humidity": 40},
        None,
        None,
    ]


def test_a_csv_has_a_column_of_each_name_and_an_npz_has_nan_for_what_is_unknown(
    greenhouse: Served,
) -> None:
    shown = [{"temperature": 21.5, "humidity": None}, {"temperature": 20, "humidity": 40}, None]
    rows = [",".join(map(str, inputs(110 + at)["x"])) for at in range(3)]
    header = ",".join([*(f"x[{at}]" for at in range(8)), "humidity", "temperature"])
    csv = "\n".join([header, rows[0] + ",,21.5", rows[1] + ",40,20", rows[2] + ",,"])
    upload = {"content": csv.encode(), "headers": {"Content-Type": "text/csv"}}
    assert stored(greenhouse, URL, **upload) == shown
    x = np.array([inputs(120 + at)["x"] for at in range(3)], np.float32)
    file = npz(x=x, label=np.array([[21.5, np.nan], [20, 40], [np.nan, np.nan]]))
    upload = {"content": file, "headers": {"Content-Type": "application/x-npz"}}
    assert stored(greenhouse, URL, **upload) == shown


def test_a_late_part_of_a_label_leaves_the_rest_alone(greenhouse: Served) -> None:
    body = {"inputs": inputs(130), "key": "late"}
    (sample_id, _) = greenhouse.http.post(f"{URL}/samples", json=body).json()["ids"]

    def change(said: Any) -> Any:
        return label(greenhouse.http.patch(f"{URL}/samples/{sample_id}", json={"label": said}))

    assert change({"humidity": 40}) == {"temperature": None, "humidity": 40}
    assert change({"temperature": 21.5}) == {"temperature": 21.5, "humidity": 40}
    content = greenhouse.http.get(f"{URL}/samples/{sample_id}/content").content
    assert np.load(io.BytesIO(content))["label"].tolist() == [[21.5, 40]]
    assert change({"humidity": None}) == {"temperature": 21.5, "humidity": None}
    assert change([20, 50]) == {"temperature": 20, "humidity": 50}
    by_key = greenhouse.http.patch(
        f"{URL}/samples?key=late", json={"label": {"temperature": 1, "humidity": None}}
    )
    assert label(by_key) == {"temperature": 1, "humidity": None}
    assert change({"temperature": None}) is None


def test_an_archive_keeps_what_is_known(greenhouse: Served, served: Served) -> None:
    archive = greenhouse.http.get(f"{URL}/samples/archive").raise_for_status().content
    lines = zipfile.ZipFile(io.BytesIO(archive)).read("samples/000000.jsonl").splitlines()
    assert json.loads(lines[1])["label"]["humidity"] is None
    served.register("copy", mlp(8, 16, 2), loss="l1", classes=NAMES)
    headers = {"Content-Type": "application/zip"}
    stored = served.http.post("/v1/models/copy/samples/archive", content=archive, headers=headers)
    assert stored.status_code == 201, stored.text
    (_, second) = served.http.get("/v1/models/copy/samples?limit=2").json()["items"]
    assert second["label"] == json.loads(lines[1])["label"]


@pytest.mark.parametrize(
    ("said", "detail"),
    [
        ({"rain": 1}, "label names 'rain', which is none of 'temperature', 'humidity'"),
        ({"humidity": "wet"}, "label says 'wet' of 'humidity', which is no number"),
        ({"humidity": True}, "label says 'True' of 'humidity', which is no number"),
        ([1, 2, 3], "label has shape [3], the model takes [2]"),
        ({"humidity": 1e300}, "label holds 1e+300 at [1]; every value must be a finite float32"),
        (
            "humidity",
            "label 'humidity' is no number; send numbers by name, such as "
            '{"temperature":0,"humidity":0}',
        ),
    ],
)
def test_a_label_that_does_not_fit_is_refused(greenhouse: Served, said: Any, detail: str) -> None:
    body = {"inputs": inputs(140), "label": said}
    answer = greenhouse.http.post(f"{URL}/samples", json=body)
    assert answer.status_code == 422
    assert [error["detail"] for error in answer.json()["errors"]] == [detail]


def test_names_that_come_later_name_whole_labels(served: Served) -> None:
    model = served.register("unnamed", mlp(8, 2), loss="huber")
    url = "/v1/models/unnamed"
    assert model["target"]["classes"] is None
    assert served.http.patch(url, json={"classes": ["a"]}).status_code == 422
    served.http.patch(url, json={"classes": NAMES}).raise_for_status()
    whole = {"temperature": 21.5, "humidity": 40}
    assert stored(served, url, json={"inputs": inputs(1), "label": whole}) == [whole]
    part = {"inputs": inputs(2), "label": {"humidity": 40}}
    (error,) = served.http.post(f"{url}/samples", json=part).json()["errors"]
    assert error["detail"].startswith("label lacks 'temperature'; ")


def test_labels_that_samples_have_or_lack_may_be_unknown_too(served: Served) -> None:
    served.register("tags", mlp(8, 2), loss="multilabel", classes=["cat", "dog"])
    url = "/v1/models/tags"
    body = {"inputs": inputs(1), "label": {"cat": True}}
    (sample_id, _) = served.http.post(f"{url}/samples", json=body).json()["ids"]
    asked = f"{url}/samples/{sample_id}"
    assert label(served.http.get(asked)) == [1, None]
    assert label(served.http.patch(asked, json={"label": {"dog": False}})) == [1, 0]
    wrong = served.http.patch(asked, json={"label": {"dog": 2}})
    assert wrong.status_code == 422
    assert wrong.json()["errors"][0]["pointer"] == "/label"
    assert label(served.http.get(asked)) == [1, 0]


@pytest.mark.parametrize(
    "classes", [["a", "b", "c"], ["a", "a"], ["a", "b", "b"]], ids=["more", "twice", "one-twice"]
)
def test_other_names_than_numbers_are_refused(served: Served, classes: list[str]) -> None:
    spec = json.dumps({"name": "misnamed", "loss": "mse", "classes": classes})
    files = {"model": ("model.onnx", mlp(8, 2))}
    answer = served.http.post("/v1/models", data={"spec": spec}, files=files)
    assert answer.status_code == 422
    (error,) = answer.json()["errors"]
    assert error["pointer"] == "/spec/classes"
    assert error["detail"].endswith("the output has 2 numbers; name each once")
