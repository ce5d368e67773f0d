"""A long recording in one CSV becomes windows, in uploads and in predictions."""

from __future__ import annotations

import io
import re
from typing import Any

import httpx
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from support import Served, mlp

LENGTH, CHANNELS = 8, 2
PREPROCESS: dict[str, Any] = {"kind": "windows", "stride": 4}


def window_model(shape: tuple[int, int] = (LENGTH, CHANNELS)) -> bytes:
    model = onnx.load_from_string(mlp(LENGTH * CHANNELS, 8, 2, inputs="flat"))
    model.graph.node.insert(0, helper.make_node("Flatten", ["x"], ["flat"], name="flatten"))
    del model.graph.input[:]
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", *shape])
    model.graph.input.append(value)
    content: bytes = model.SerializeToString()
    return content


@pytest.fixture
def model(served: Served, request: pytest.FixtureRequest) -> str:
    name = re.sub(r"\W+", "-", request.node.name)[:60]
    served.register(name, window_model(), classes=["calm", "fault"], preprocess=PREPROCESS)
    return name


def send(
    served: Served, model: str, text: str, to: str = "samples", **params: str
) -> httpx.Response:
    return served.http.post(
        f"/v1/models/{model}/{to}",
        content=text.encode(),
        params=params,
        headers={"Content-Type": "text/csv"},
    )


def recording(labels: str, *, faults: str = "f") -> str:
    """A row a character: `f` for a fault, `c` for a calm one, `-` for one without a label."""
    names = {"f": "fault", "c": "calm", "-": ""}
    rows = [f"{at},{at / 10},{names[label]}" for at, label in enumerate(labels)]
    return "\n".join(["a,b,label", *rows])


def stored(served: Served, model: str) -> list[tuple[list[float], Any, str]]:
    """First channel, label and split of each window."""
    url = f"/v1/models/{model}/samples"
    found = []
    for sample in served.http.get(url, params={"limit": "1000"}).json()["items"]:
        arrays = np.load(io.BytesIO(served.http.get(f"{url}/{sample['id']}/content").content))
        first = arrays["x"][0]
        channel = first[:, 0] if first.shape == (LENGTH, CHANNELS) else first[0]
        found.append((channel.tolist(), sample["label"], sample["split"]))
    return found


def test_windows_have_the_label_of_most_of_their_rows(served: Served, model: str) -> None:
    answer = send(served, model, recording("ccccccffffff--------c"), split="train")

    assert answer.status_code == 201, answer.text
    assert stored(served, model) == [
        (list(range(8)), 0, "train"),
        (list(range(4, 12)), 1, "train"),
        (list(range(8, 16)), 1, "train"),
        (list(range(12, 20)), None, "train"),
    ]


def test_of_as_many_rows_the_later_label_counts(served: Served, model: str) -> None:
    send(served, model, recording("ccccffff"), split="train")
    send(served, model, recording("fffc-cc-"), split="train")
    assert [label for _, label, _ in stored(served, model)] == [1, 0]


def test_the_last_row_gives_the_label_where_it_is_asked_for(served: Served) -> None:
    name, layout = "windows-last", "channels_first"
    description = {**PREPROCESS, "label": "last", "layout": layout}
    served.register(
        name,
        window_model((CHANNELS, LENGTH)),
        classes=["calm", "fault"],
        preprocess=description,
        features=["a", "b"],
    )
    send(served, name, recording("cccccccf"), split="train")
    assert stored(served, name) == [(list(range(8)), 1, "train")]


def test_windows_that_overlap_never_part_into_both_splits(served: Served, model: str) -> None:
    answer = send(served, model, recording("c" * 1600)).json()

    found = stored(served, model)
    rows = {
        split: {row for window, _, its in found if its == split for row in window}
        for split in ("train", "validation")
    }
    assert not rows["train"] & rows["validation"]
    assert 0.07 < len(rows["validation"]) / 1600 < 0.13
    left_out = 399 - answer["accepted"]
    assert 5 < left_out < 20
    assert f"{left_out} windows were left out" in " ".join(answer["warnings"])
    again = send(served, model, recording("c" * 1600)).json()
    assert (again["accepted"], again["duplicates"]) == (0, answer["accepted"])


def test_rows_may_name_the_split(served: Served, model: str) -> None:
    lines = ["a,b,split", *(f"{n},0,{'train' if n < 10 else 'validation'}" for n in range(20))]
    answer = send(served, model, "\n".join(lines))

    assert [split for *_, split in stored(served, model)] == ["train", "validation"]
    assert "2 windows were left out" in " ".join(answer.json()["warnings"])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (recording("ccccccc"), "the recording has 7 rows, and a window of this model 8; send a"),
        ("a,b,label\n", "there is no line behind the header"),
        ("a,b,c,label\n" + "1,2,3,calm\n" * 9, "which takes 2"),
        ("a,b,key\n" + "1,2,k\n" * 9, "a window has many rows, and so no key"),
        ("a,b\n" + "1,2\n" * 9 + "1,x\n", "line 11: column 2 holds 'x', which is not a number"),
    ],
    ids=["short", "empty", "columns", "key", "text"],
)
def test_a_recording_that_makes_no_windows_is_refused(
    served: Served, model: str, text: str, reason: str
) -> None:
    refused = send(served, model, text)

    assert refused.status_code == 422
    assert reason in refused.text
    assert stored(served, model) == []


def test_no_window_reaches_over_a_bad_row(served: Served, model: str) -> None:
    lines = recording("c" * 30).split("\n")
    lines[11] = "10,?,calm"
    answer = send(served, model, "\n".join(lines), on_error="skip", split="train").json()

    assert [window[0] for window, *_ in stored(served, model)] == [0, 12, 16, 20]
    assert [error["pointer"] for error in answer["errors"]] == ["/12"]


def test_predictions_take_tensors_of_windows_and_whole_recordings(
    served: Served, model: str
) -> None:
    rows = np.random.default_rng(0).normal(0, 1, (402, 2)).round(3)
    rows[200:, 0] += 9
    lines = [f"{a},{b},{'fault' if n >= 200 else 'calm'}" for n, (a, b) in enumerate(rows)]
    text = "\n".join(["a,b,label", *lines])
    for split in ("train", "validation"):
        assert send(served, model, text, split=split, allow_duplicates="true").status_code == 201
    served.train(model, epochs=40, batch_size=8, learning_rate=0.02, seed=1)

    asked = send(served, model, text.replace(",calm", ",").replace(",fault", ","), to="predict")

    answers = [prediction["label"] for prediction in asked.json()["predictions"]]
    assert len(answers) == 99
    assert answers[:49] == ["calm"] * 49
    assert answers[51:] == ["fault"] * 48
    one = served.http.post(
        f"/v1/models/{model}/predict", json={"inputs": {"x": rows[300:308].tolist()}}
    )
    assert one.json()["predictions"][0]["label"] == "fault"
    short = send(served, model, recording("ccc"), to="predict")
    assert short.status_code == 422
    assert "a window of this model 8" in short.text
