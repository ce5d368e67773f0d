"""Photos with boxes over HTTP: they are checked, come back, train a model, and are predicted."""

from __future__ import annotations

import io
import json
import re
from typing import Any

import numpy as np
import onnx
import pytest
from boxes import CLASSES, PREPROCESS, SIDE, box_model, street
from masks import png
from onnx import TensorProto, helper, numpy_helper
from PIL import Image
from support import Served

from service.preprocess.boxes.boxes import Boxes
from service.preprocess.boxes.labels import StoredBoxes
from storage.database.codec import encode

PHOTO, BOXES = street(1)
HEIGHT, WIDTH = PHOTO.shape[:2]
PNG = {"Content-Type": "image/png"}


def register(served: Served, name: str, **spec: Any) -> str:
    fields = {"loss": "detection", "classes": CLASSES, "preprocess": PREPROCESS, **spec}
    served.register(name, box_model(), **fields)
    return f"/v1/models/{name}"


@pytest.fixture
def url(served: Served, request: pytest.FixtureRequest) -> str:
    return register(served, re.sub(r"\W+", "-", request.node.name)[:60].strip("-"))


def send(served: Served, url: str, labels: list[Any], *, first: int = 0, **params: Any) -> Any:
    """Photos of streets with these labels."""
    photos = [png(street(first + n)[0]) for n in range(len(labels))]
    files = [("file", (f"{n}.png", photo, "image/png")) for n, photo in enumerate(photos)]
    data = {"samples": json.dumps([{"label": label} for label in labels])}
    return served.http.post(f"{url}/samples", files=files, data=data, params=params)


def test_boxes_come_back_as_they_were_sent(served: Served, url: str) -> None:
    by_index = [{**each, "label": CLASSES.index(each["label"])} for each in BOXES]
    exact = [{"box": [0.1, 1 / 3, 2.5, 47], "label": "bar"}]
    sent = [{"boxes": each} for each in (BOXES, by_index, exact, [])]
    answer = send(served, url, sent)
    assert answer.status_code == 201, answer.text

    labels = [each["label"]["boxes"] for each in served.http.get(f"{url}/samples").json()["items"]]
    assert labels == [BOXES, BOXES, exact, []]
    assert served.http.get(url).json()["samples"]["unlabelled"] == 0
    again = send(served, url, [{"boxes": labels[0]}]).json()
    assert (again["duplicates"], again["conflicts"]) == (1, 0)
    assert send(served, url, sent[2:3]).json()["conflicts"] == 1
    by_class = served.http.get(f"{url}/samples", params={"label": "bar"})
    assert "is not one class, by which" in by_class.text


def test_boxes_may_come_in_the_query_or_later(served: Served, url: str) -> None:
    text = json.dumps({"boxes": BOXES})
    answer = served.http.post(
        f"{url}/samples", params={"label": f"\ufeff{text}"}, content=png(PHOTO), headers=PNG
    )
    assert answer.status_code == 201, answer.text
    sample = f"{url}/samples/{answer.json()['ids'][0]}"
    assert served.http.get(sample).json()["label"] == {"boxes": BOXES}
    for label in (None, {"boxes": [{**BOXES[0], "probability": 0.9}]}):
        changed = served.http.patch(sample, json={"label": label})
        assert changed.status_code == 200, changed.text
        assert changed.json()["label"] == (label and {"boxes": BOXES[:1]})


def box(*sides: Any, label: Any = "bar") -> dict[str, Any]:
    return {"boxes": [BOXES[0], {"box": [*sides], "label": label}]}


WRONG = {
    "right of the photo": (box(60, 0, 5, 5), "box 1 goes from (60, 0) to (65, 5), and the photo"),
    "below the photo": (box(0, 40, 5, 9), "has 64 x 48 pixels as it is seen"),
    "left of the photo": (box(-1, 0, 5, 5), "goes from (-1, 0)"),
    "without area": (box(1, 1, 0, 5), "is 0 wide and 5 high, which is no area"),
    "turned over": (box(5, 5, -2, 2), "is -2 wide and 2 high"),
    "an unknown class": (
        box(1, 1, 2, 2, label="tree"),
        "label 'tree', and the model's",
    ),
    "an unknown index": (box(1, 1, 2, 2, label=2), "has the label '2'"),
    "no class": (box(1, 1, 2, 2, label=True), "has the label 'True'"),
    "too many": ({"boxes": BOXES[:1] * 10_000}, "10000 boxes, and the most on a photo is 1000"),
    "three numbers": (box(1, 2, 3), "is not four finite numbers"),
    "text": (box(1, 2, 3, "4"), "is not four finite numbers"),
    "more than a float": (box(1, 2, 3, 10**400), "is not four finite numbers"),
    "no object": ({"boxes": [[1, 2, 3, 4]]}, "box 0 is no object of box and label"),
    "another field": ({"boxes": [{**BOXES[0], "score": 1}]}, "box 0 is no object"),
    "no list": ({"boxes": {}}, "label: send {"),
    "a class index": (1, "label: send {"),
    "no JSON": ("bar", "label: "),
}


@pytest.mark.parametrize("what", WRONG)
def test_boxes_that_do_not_fit_are_refused_by_name(served: Served, boxed: str, what: str) -> None:
    label, says = WRONG[what]
    answer = send(served, boxed, [{"boxes": []}, label])
    assert answer.status_code == 422, answer.text
    (problem,) = answer.json()["errors"]
    assert problem["pointer"] == "/files/1/label"
    assert says in problem["detail"]
    assert served.http.get(boxed).json()["samples"]["train"] == 0


@pytest.fixture(scope="module")
def boxed(served: Served) -> str:
    """A model without samples."""
    return register(served, "boxed")


def test_boxes_are_of_the_photo_as_it_is_seen(served: Served, url: str) -> None:
    turned, exif = io.BytesIO(), Image.Exif()
    exif[0x0112] = 6  # a quarter turn makes it upright
    Image.fromarray(PHOTO).save(turned, "JPEG", exif=exif)
    headers = {"Content-Type": "image/jpeg"}
    for sides, status in (([0, 50, 48, 14], 201), ([50, 0, 14, 48], 422)):
        label = json.dumps({"boxes": [{"box": sides, "label": 0}]})
        answer = served.http.post(
            f"{url}/samples", params={"label": label}, content=turned.getvalue(), headers=headers
        )
        assert answer.status_code == status, answer.text


def test_an_archive_carries_boxes_back(served: Served, url: str) -> None:
    send(served, url, [{"boxes": BOXES}, {"boxes": []}]).raise_for_status()
    archive = served.http.get(f"{url}/samples/archive").content
    other = register(served, "boxes-again")
    answer = served.http.post(
        f"{other}/samples/archive", content=archive, headers={"Content-Type": "application/zip"}
    )
    assert answer.status_code == 201, answer.text
    items = served.http.get(f"{other}/samples").json()["items"]
    assert [entry["label"] for entry in items] == [{"boxes": BOXES}, {"boxes": []}]


@pytest.mark.parametrize("without", ["preprocess", "classes"])
def test_a_model_of_boxes_takes_photos_and_a_name_for_each_class(
    served: Served, without: str
) -> None:
    spec = {"preprocess": PREPROCESS, "classes": CLASSES}
    spec[without] = spec[without][:1] if without == "classes" else []
    body = json.dumps({"name": "unfit", "loss": "detection", **spec})
    files = {"spec": (None, body, "application/json"), "model": ("m.onnx", box_model())}
    answer = served.http.post("/v1/models", files=files)
    assert answer.status_code == 422
    (problem,) = answer.json()["errors"]
    assert problem["pointer"] == f"/spec/{without}"


def test_a_name_stands_for_one_class(served: Served, url: str) -> None:
    answer = served.http.patch(url, json={"classes": ["one", "one", "two"]})
    assert answer.json()["errors"][0]["pointer"] == "/classes"
    body = json.dumps({"name": "twice", "loss": "detection", "classes": ["one", "one", "two"]})
    files = {"spec": (None, body, "application/json"), "model": ("m.onnx", box_model())}
    problems = served.http.post("/v1/models", files=files).json()["errors"]
    assert [problem["pointer"] for problem in problems] == ["/spec/classes"]


def test_boxes_train_the_head_of_a_model_and_judge_it(served: Served) -> None:
    """By views of its frozen part's features, each with the boxes of that view."""
    augmented = {**PREPROCESS, "augment": {"flip": 0.5, "crop": 0.1, "views": 3}}
    gate = {"metric": "ap", "label": "bar"}
    url = register(served, "streets", preprocess=augmented, gate=gate, trainable=["c.*"])
    for split, first, count in (("train", 0, 40), ("validation", 100, 20)):
        labels = [{"boxes": street(first + n)[1]} for n in range(count)]
        send(served, url, labels, first=first, split=split).raise_for_status()

    job = served.train("streets", epochs=15, batch_size=8, learning_rate=0.01, seed=1)

    validation, baseline = (job["metrics"][which] for which in ("validation", "baseline"))
    assert validation["map_50"] > 0.6
    assert baseline["map_50"] < 0.1
    assert np.mean(validation["ap"]) == pytest.approx(validation["map"])
    made = served.http.get(f"{url}/versions/{job['version']}").json()
    assert made["reason"].startswith("promoted: validation ap of 'bar' went from 0")
    assert made["verdict"]["validation"]["test"] == "bootstrap"

    photo, truth = street(104)
    answer = served.http.post(f"{url}/predict", content=png(photo), headers=PNG).json()
    (found,) = answer["predictions"]
    chances = [box["probability"] for box in found["boxes"]]
    assert chances == sorted(chances, reverse=True)
    first = found["boxes"][0]
    nearest = min(truth, key=lambda other: far(first, other))
    assert nearest["label"] == first["label"]
    assert far(first, nearest) < 4
    sample = f"{url}/samples/{served.http.get(f'{url}/samples').json()['items'][0]['id']}"
    served.http.patch(sample, json={"label": found}).raise_for_status()


def far(some: dict[str, Any], other: dict[str, Any]) -> float:
    return float(np.abs(np.subtract(some["box"], other["box"])).max())


def test_predicted_boxes_have_the_names_that_their_version_knows(served: Served, url: str) -> None:
    sample = f"{url}/samples/{send(served, url, [{'boxes': BOXES}]).json()['ids'][0]}"
    served.http.patch(url, json={"classes": ["box", "rod"]}).raise_for_status()
    label = served.http.get(sample).json()["label"]
    assert {box["label"] for box in label["boxes"]} <= {"box", "rod"}
    answer = served.http.post(f"{url}/predict", content=png(PHOTO), headers=PNG).json()
    assert {box["label"] for box in answer["predictions"][0]["boxes"]} == set(CLASSES)


def test_photos_whose_boxes_are_least_certain_are_listed_first(served: Served, url: str) -> None:
    send(served, url, [None, None, {"boxes": BOXES}]).raise_for_status()
    asked = {"unlabelled": True, "order": "uncertainty"}
    listed = served.http.get(f"{url}/samples", params=asked).json()["items"]
    doubts = [each["uncertainty"] for each in listed]
    assert len(doubts) == 2
    assert doubts == sorted(doubts, reverse=True)
    assert doubts[0] > 0


def test_an_upgrade_with_other_classes_is_refused(served: Served, url: str) -> None:
    files = {"spec": (None, "{}", "application/json"), "model": ("m.onnx", box_model(3))}
    answer = served.http.put(f"{url}/base", files=files, params={"check": True})
    assert answer.status_code == 422, answer.text
    (problem,) = answer.json()["errors"]
    assert problem["detail"] == "it tells apart 3 classes, and the model 2"


def own_loss_model() -> bytes:
    """`image` → `y`, a box; `loss`: how far it is from each box that is there, times class + 1."""
    make, info = helper.make_node, helper.make_tensor_value_info
    nodes = [
        make("Flatten", ["image"], ["flat"]),
        make("Gemm", ["flat", "w", "b"], ["y"]),
        make("Unsqueeze", ["y", "one"], ["wide"]),
        make("Sub", ["wide", "boxes"], ["error"]),
        make("Abs", ["error"], ["size"]),
        make("ReduceSum", ["size", "two"], ["of_boxes"], keepdims=0),
        make("Unsqueeze", ["count", "one"], ["counts"]),
        make("Less", ["places", "counts"], ["there"]),
        make("Cast", ["there"], ["mask"], to=TensorProto.FLOAT),
        make("Add", ["classes", "one"], ["next"]),
        make("Cast", ["next"], ["factor"], to=TensorProto.FLOAT),
        make("Mul", ["of_boxes", "mask"], ["masked"]),
        make("Mul", ["masked", "factor"], ["weighted"]),
        make("ReduceSum", ["weighted", "one"], ["loss"], keepdims=0),
    ]
    numbers = {
        "w": np.zeros((3 * SIDE * SIDE, 4), np.float32),
        "b": np.full(4, 0.25, np.float32),
        "one": np.array([1]),
        "two": np.array([2]),
        "places": np.arange(3)[None],
    }
    inputs = [
        info("image", TensorProto.FLOAT, ["n", 3, SIDE, SIDE]),
        info("boxes", TensorProto.FLOAT, ["n", 3, 4]),
        info("classes", TensorProto.INT64, ["n", 3]),
        info("count", TensorProto.INT64, ["n"]),
    ]
    outputs = [info("y", TensorProto.FLOAT, ["n", 4]), info("loss", TensorProto.FLOAT, ["n"])]
    constants = [numpy_helper.from_array(value, name) for name, value in numbers.items()]
    graph = helper.make_graph(nodes, "own", inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    content: bytes = model.SerializeToString()
    return content


def test_a_loss_of_the_model_takes_boxes_classes_and_their_count(served: Served) -> None:
    spec = {"loss": {"output": "loss"}, "classes": CLASSES, "preprocess": PREPROCESS}
    served.register("own-boxes", own_loss_model(), **spec)
    url = "/v1/models/own-boxes"
    told = served.http.get(url).json()
    assert [value["name"] for value in told["inputs"]] == ["image"]
    assert (told["target"]["shape"], told["target"]["box_classes"]) == ([3, 5], 2)
    too_many = send(served, url, [{"boxes": BOXES[:1] * 4}])
    assert "the most on a photo is 3" in too_many.json()["errors"][0]["detail"]

    for split in ("train", "validation"):
        first = 0 if split == "train" else 500
        labels = [{"boxes": street(first + n)[1]} for n in range(10)]
        send(served, url, labels, first=first, split=split).raise_for_status()
    job = served.train("own-boxes", epochs=1, batch_size=4, learning_rate=1e-5)
    boxes = Boxes((SIDE, SIDE), "cover", None)
    expected = [
        sum((np.abs(0.25 - box[:4]).sum()) * (box[4] + 1) for box in seen_of(boxes, 500 + n))
        for n in range(10)
    ]
    assert job["metrics"]["baseline"]["loss"] == pytest.approx(np.mean(expected), rel=1e-4)
    assert job["metrics"]["validation"]["loss"] < job["metrics"]["baseline"]["loss"]
    version = served.http.get(f"{url}/versions/{job['version']}/model.onnx").content
    names = [value.name for value in onnx.load_model_from_string(version).graph.input]
    assert names == ["image"]


def seen_of(boxes: Boxes, seed: int) -> np.ndarray:
    """The boxes of a street in the model's tensor."""
    _, label = street(seed)
    stored = tuple((*each["box"], CLASSES.index(each["label"])) for each in label)
    return boxes.seen(boxes.placed(encode(StoredBoxes((HEIGHT, WIDTH), stored))))
