"""Boxes from COCO's JSON and from the texts of YOLO's tools, and back."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import pytest
from boxes import PREPROCESS, box_model, street
from masks import png

from cli.client import Client, model_path
from cli.commands.samples import coco, media, yolo
from cli.demo.daemon import DaemonProcess
from cli.errors import Failure

CLASSES = ["cat", "a dog: \"big\" #1, or 'small'"]
SIZE = (30, 40)
"""Height and width."""
BOXES: dict[str, Any] = {
    "train/1.png": [
        {"box": [0, 0, 40, 30], "label": CLASSES[1]},
        {"box": [3.25, 10.5, 7.01, 0.33], "label": "cat"},
    ],
    "validation/2.png": [],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The photos, without their boxes."""
    for place in BOXES:
        file = tmp_path / "images" / place
        file.parent.mkdir(parents=True)
        file.write_bytes(png(np.zeros((*SIZE, 3), np.uint8)))
    return tmp_path


def found(folder: Path) -> dict[str, Any]:
    """Labels by photo, as they are sent."""
    files, _ = media.find(folder, classes=None, of_boxes=CLASSES, skip=False)
    return {file.path.relative_to(folder / "images").as_posix(): file.label for file in files}


STREETS = {PurePath("train", f"{seed}.png"): street(seed) for seed in range(3)}


@pytest.fixture
def finder(honed: Callable[..., Any], tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """A model to which COCO's folder `given` was sent."""
    name = request.node.name[:64]
    (tmp_path / "model.onnx").write_bytes(box_model())
    added = honed(
        *("models", "add", tmp_path / "model.onnx", "--name", name, "--loss", "detection"),
        *("--class", "square", "--class", "bar", "--preprocess", json.dumps(PREPROCESS)),
    )
    assert added.returncode == 0, added.stderr
    for place, (pixels, _) in STREETS.items():
        file = tmp_path / "given/images" / place
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(png(pixels))
    written = {place: (pixels.shape[:2], boxes) for place, (pixels, boxes) in STREETS.items()}
    coco.write(tmp_path / "given", written, ["square", "bar", "yak"])
    sent = honed("samples", "add", name, tmp_path / "given", "--split", "train")
    assert "3 accepted" in sent.stdout, sent.stderr
    return name


def test_boxes_come_from_a_folder_and_go_to_another(
    honed: Callable[..., Any], client: Client, finder: str, tmp_path: Path
) -> None:
    for form in ("coco", "yolo"):
        done = honed("samples", "export", finder, tmp_path / form, "--as", form, "--split", "train")
        assert f"{form}: 3 photos with boxes" in done.stdout, done.stderr
        again = honed("samples", "add", finder, tmp_path / form)
        assert "0 accepted, 3 duplicates" in again.stdout, again.stderr
    labels = [each["label"] for each in client.items(model_path(finder, "samples"))]
    assert labels == [{"boxes": boxes} for _, boxes in STREETS.values()]
    twice = honed("samples", "export", finder, tmp_path / "coco", "--as", "coco")
    # Windows says: already exists.
    assert re.search(r"coco: File (already )?exists$", twice.stderr, re.M)
    listed = honed("samples", "list", finder).stdout
    assert "2 square" in listed
    (first, *_) = client.items(model_path(finder, "samples"))
    assert "box      square 51, 0, 12, 12\n" in honed("samples", "show", finder, first["id"]).stdout
    asked = ("predict", finder, tmp_path / "given/images/train/1.png")
    told = json.loads(honed(*asked, "--json").stdout)["predictions"][0]["boxes"]
    rows = honed(*asked).stdout.splitlines()[2:]
    assert len(rows) == len(told)
    assert rows[0].startswith(f"{told[0]['label']} {told[0]['box'][0]:.4g}, ")


def test_an_export_that_fails_leaves_no_folder(
    honed: Callable[..., Any], daemon: DaemonProcess, finder: str, tmp_path: Path
) -> None:
    last = (tmp_path / "given/images/train/2.png").read_bytes()
    for file in daemon.token_file.parent.glob("packs/*/*.pack"):
        file.write_bytes(file.read_bytes().replace(last, b"!" + last[1:]))
    before = sorted(tmp_path.iterdir())
    done = honed("samples", "export", finder, tmp_path / "boxes", "--as", "yolo")
    assert "its bytes are not those that were stored" in done.stderr
    assert sorted(tmp_path.iterdir()) == before


def test_folders_with_what_a_model_lacks_are_refused_before_anything_is_sent(
    honed: Callable[..., Any], finder: str, tmp_path: Path
) -> None:
    file, photos = tmp_path / "given/instances.json", tmp_path / "given/images"
    file.write_text(file.read_text().replace("square", "cow"))
    unknown = honed("samples", "add", finder, tmp_path / "given")
    assert "a box of 'cow'; the model's classes are square, bar" in unknown.stderr
    (photos / "train/2.png").unlink()
    refused = honed("samples", "add", finder, tmp_path / "given")
    assert refused.returncode == 1
    assert "names the photo 'train/2.png'" in refused.stderr
    bare = honed("samples", "add", finder, photos, "--allow-duplicates")
    assert "2 accepted" in bare.stdout, bare.stderr


@pytest.mark.parametrize("form", [coco, yolo])
@pytest.mark.parametrize("has_names", [True, False])
def test_what_is_written_is_read_as_it_was(form: Any, has_names: bool, folder: Path) -> None:
    boxes = {
        place: [
            {**box, "label": box["label"] if has_names else CLASSES.index(box["label"])}
            for box in boxes
        ]
        for place, boxes in BOXES.items()
    }
    names = CLASSES if has_names else range(2)
    form.write(folder, {PurePath(box): (SIZE, boxes[box]) for box in boxes}, names)

    files, _ = media.find(folder, classes=None, of_boxes=CLASSES if has_names else None, skip=False)
    assert [each.label for each in files] == [{"boxes": each} for each in boxes.values()]


def document(**changes: Any) -> dict[str, Any]:
    """COCO's JSON of one photo with one box, with changes of its fields."""
    return {
        "info": {"year": 2026},
        "images": [{"id": 7, "file_name": "1.png", "width": 40, "height": 30}],
        "annotations": [{"id": 1, "image_id": 7, "category_id": 3, "bbox": [1, 2, 3, 4]}],
        "categories": [{"id": 3, "name": "cat", "supercategory": "animal"}],
        **changes,
    }


@pytest.mark.parametrize(
    "place", ["instances.json", "train/_annotations.coco.json", "annotations/instances_train.json"]
)
def test_coco_is_found_where_tools_write_it(place: str, folder: Path) -> None:
    (folder / "images/train").rename(folder / "train")
    photo = folder / "train/1.png"
    file = folder / place
    file.parent.mkdir(exist_ok=True)
    name = "train/1.png" if place == "instances.json" else "1.png"
    images = [{"id": "a", "file_name": name}]
    annotation = {"image_id": "a", "category_id": 3, "bbox": [1, 2, 3, 4], "iscrowd": 0}
    crowd = {**annotation, "iscrowd": 1}
    file.write_text(json.dumps(document(images=images, annotations=[annotation, crowd])))
    source = folder / "train" if place.startswith("train") else folder

    files, _ = media.find(source, classes=None, of_boxes=CLASSES, skip=False)

    label = {"boxes": [{"box": [1, 2, 3, 4], "label": "cat"}]}
    assert [(file.path, file.label) for file in files] == [(photo, label)]


def test_a_box_that_tools_have_rounded_beyond_its_photo_is_cut(folder: Path) -> None:
    file = folder / "images/train/instances.json"
    boxes = [[-0.5, 0, 40.75, 30.2], [-3, 0, 5, 31]]
    each = {"image_id": 7, "category_id": 3}
    file.write_text(json.dumps(document(annotations=[{**each, "bbox": box} for box in boxes])))

    (made,) = coco.read(file, folder).values()

    assert [box["box"] for box in made] == [[0, 0, 40, 30], [-3, 0, 5, 31]]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"images": [{"id": 7, "file_name": "gone.png"}]}, "names the photo 'gone.png', which is"),
        ({"images": [{"id": 7, "file_name": "../../etc/passwd"}]}, "which is not in"),
        ({"images": [{"id": 8, "file_name": "1.png"}]}, "/annotations/0/image_id is 7, which"),
        ({"categories": []}, "/annotations/0/category_id is 3, which"),
        ({"categories": [{"id": 3, "name": "yak"}]}, "1.png: a box of 'yak'; the model's classes"),
        ({"annotations": [{"image_id": 7, "category_id": 3, "bbox": [1, 2]}]}, "[0].bbox"),
        ({"annotations": None}, "not as COCO writes it"),
    ],
)
def test_what_is_wrong_with_coco_is_told(changes: dict[str, Any], told: str, folder: Path) -> None:
    file = folder / "images/train/instances.json"
    file.write_text(json.dumps(document(**changes)))
    with pytest.raises(Failure) as failed:
        media.find(folder / "images/train", classes=None, of_boxes=CLASSES, skip=False)
    assert told in failed.value.args[0]
    assert "1.png" in failed.value.args[0] or str(file) in failed.value.args[0]


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("data.yaml", "train: x\nnames: [cat, 'a dog']\nnc: 2\n"),
        ("data.yaml", 'names:\n- cat\n- "a dog"\nroboflow:\n  project: x\n'),
        ("data.yaml", "# Classes\nnames: # two\n  0: cat  # small\n\n  1: a dog\n"),
        ("data.yaml", "names: {1: a dog, 0: cat}\n"),
        ("data.yaml", "names: [\n  'cat',\n  'a dog',\n]\n"),
        ("classes.txt", "cat\na dog\n"),
        ("obj.names", "cat\r\na dog\r\n\r\n"),
        ("labels/classes.txt", "cat\na dog"),
    ],
)
def test_names_of_classes_are_read_as_tools_write_them(
    file: str, text: str, tmp_path: Path
) -> None:
    (tmp_path / "labels").mkdir()
    (tmp_path / file).write_bytes(text.encode())
    assert yolo.names_of(tmp_path) == {0: "cat", 1: "a dog"}


def labelled(folder: Path, text: str, names: str = "cat\nyak\n") -> None:
    (folder / "labels/train").mkdir(parents=True)
    (folder / "labels/train/1.txt").write_text(text)
    (folder / "classes.txt").write_text(names)


def test_a_photo_without_a_text_waits_and_one_with_an_empty_one_has_no_boxes(
    folder: Path,
) -> None:
    labelled(folder, "\n")
    assert found(folder) == {"train/1.png": {"boxes": []}, "validation/2.png": None}


def test_boxes_are_cut_at_the_edges_of_their_photos(folder: Path) -> None:
    labelled(folder, "0 0.1 0.5 0.25 1\n0 1 1 0.5 0.5\n")
    assert found(folder)["train/1.png"]["boxes"] == [
        {"box": [0, 0, 9, 30], "label": "cat"},
        {"box": [30, 22.5, 10, 7.5], "label": "cat"},
    ]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("0 0.5 0.5 1.5 0.1", "line 2: centre, width and height are shares"),
        ("0 -0.1 0.5 0.1 0.1", "from 0 to 1"),
        ("0 nan 0.5 0.1 0.1", "from 0 to 1"),
        ("0 0.5 0.5 0.1", "line 2: a line is five numbers"),
        ("0 0.1 0.1 0.2 0.1 0.3 0.3", "line 2: a line is five numbers"),
        ("cat 0.1 0.1 0.2 0.1", "line 2: a line is five numbers"),
        ("2 0.5 0.5 0.1 0.1", "there is no class 2; the names are of 0 to 1"),
        ("0.5 0.5 0.5 0.1 0.1", "there is no class 0.5"),
        ("1 0.5 0.5 0.1 0.1", "1.png: a box of 'yak'; the model's classes are cat"),
    ],
)
def test_what_is_wrong_with_a_line_is_told(line: str, told: str, folder: Path) -> None:
    labelled(folder, f"0 0.5 0.5 0.1 0.1\n{line}\n")
    with pytest.raises(Failure) as failed:
        found(folder)
    assert told in failed.value.args[0]
    assert "1." in failed.value.args[0]


@pytest.mark.parametrize("names", [None, "", "train: x\n"])
def test_a_folder_without_names_of_classes_is_refused(names: str | None, folder: Path) -> None:
    labelled(folder, "")
    (folder / "classes.txt").unlink()
    if names is not None:
        (folder / "data.yaml").write_text(names)
    with pytest.raises(Failure, match=r"data\.yaml"):
        found(folder)


def test_boxes_of_no_photo_are_refused(folder: Path) -> None:
    labelled(folder, "")
    (folder / "labels/train/9.txt").touch()
    with pytest.raises(Failure, match=r"9\.txt: no photo in"):
        found(folder)
