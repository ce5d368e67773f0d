"""Images and CSV from the command line, from the model's registration on."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from masks import PREPROCESS as MASK_PREPROCESS
from masks import mask_model, png, scene
from pictures import PREPROCESS, image_model, photo
from PIL import Image
from support import mlp
from texts import classifier, tokenizer

from cli.client import Client, model_path
from cli.commands.samples import media

Honed = Callable[..., Any]


@pytest.fixture
def model(honed: Honed, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """A model of images with the classes dark and bright, registered by the command."""
    name = request.node.name.replace("[", ".").replace("]", "")[:64]
    (tmp_path / "model.onnx").write_bytes(image_model())
    (tmp_path / "preprocess.json").write_text(json.dumps(PREPROCESS))
    added = honed(
        *("models", "add", tmp_path / "model.onnx", "--name", name, "--loss", "cross_entropy"),
        *("--class", "dark", "--class", "bright"),
        *("--preprocess", tmp_path / "preprocess.json"),
    )
    assert added.returncode == 0, added.stderr
    return name


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Photos in folders that are named as their class, one of them a level deeper."""
    root = tmp_path / "photos"
    for place, brightness, kind in (
        ("dark/a.png", 60, "PNG"),
        ("dark/2024/b.JPG", 60, "JPEG"),
        ("bright/ü c.webp", 190, "WEBP"),
        ("dark/.ipynb_checkpoints/a-checkpoint.png", 61, "PNG"),
    ):
        path = root / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(photo(brightness, 1, kind=kind))
    (root / "dark" / "._a.png").write_bytes(b"a Mac's own notes")
    (root / "notes.txt").write_text("no image")
    return root


def labels(client: Client, model: str) -> list[object]:
    found = client.items(model_path(model, "samples"))
    return [sample["label"] for sample in sorted(found, key=lambda sample: sample["id"])]


def test_a_folder_of_images_is_added_with_its_folders_as_labels(
    honed: Honed, client: Client, model: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(media, "BATCH_FILES", 2)

    done = honed("samples", "add", model, folder, "--split", "train", "--json")

    assert done.returncode == 0, done.stderr
    (result,) = json.loads(done.stdout)
    assert (result["file"], result["accepted"]) == (str(folder), 3)
    assert labels(client, model) == [1, 0, 0]
    assert client.get(model_path(model))["samples"]["train"] == 3
    first = client.request("GET", model_path(model, "samples", result["ids"][0], "content"))
    assert first.content == (folder / "bright" / "ü c.webp").read_bytes()
    honed("train", model, "--max-steps", 1, "--now", "--watch").check_returncode()


def test_a_label_holds_for_every_image_and_a_file_has_none_without(
    honed: Honed, client: Client, model: str, folder: Path
) -> None:
    image = folder / "dark" / "a.png"
    for arguments in ((folder, "--label", "bright"), (image, "--label", 0), (image,)):
        done = honed("samples", "add", model, *arguments, "--allow-duplicates")
        assert done.returncode == 0, done.stderr

    assert labels(client, model) == [1, 1, 1, 0, None]


def test_a_folder_that_is_no_class_is_named_and_nothing_is_sent(
    honed: Honed, client: Client, model: str, folder: Path
) -> None:
    (folder / "dark").rename(folder / "night")

    refused = honed("samples", "add", model, folder)

    assert refused.returncode == 1
    assert str(folder / "night") in refused.stderr
    assert "dark, bright" in refused.stderr
    assert labels(client, model) == []


def test_a_bad_file_among_good_ones_is_named_or_skipped(
    honed: Honed, client: Client, model: str, folder: Path
) -> None:
    (folder / "dark" / "z.png").write_bytes(b"no image")

    refused = honed("samples", "add", model, folder)
    assert refused.returncode == 1
    assert f"{(folder / 'dark' / 'z.png').as_posix()}: " in refused.stderr
    assert labels(client, model) == []

    skipped = honed("samples", "add", model, folder, "--on-error", "skip")
    assert skipped.returncode == 0, skipped.stderr
    assert "3 accepted, 0 duplicates, 1 rejected" in skipped.stdout


def test_a_folder_without_images_is_refused(honed: Honed, model: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    refused = honed("samples", "add", model, tmp_path / "empty")
    assert refused.returncode == 1
    assert "no image" in refused.stderr


def test_csv_is_added_with_the_column_of_its_label(
    honed: Honed, client: Client, tmp_path: Path
) -> None:
    (tmp_path / "table-model.onnx").write_bytes(mlp(2, 4, 2))
    (tmp_path / "table.csv").write_text("width,species,height\n1,1,2\n3,0,4\n")
    added = honed("models", "add", tmp_path / "table-model.onnx", "--loss", "cross_entropy")
    assert added.returncode == 0, added.stderr

    done = honed(
        "samples", "add", "table-model", tmp_path / "table.csv", "--label-column", "species"
    )

    assert done.stdout.endswith("table.csv: 2 accepted, 0 duplicates, 0 rejected\n"), done.stderr
    assert labels(client, "table-model") == [1, 0]


@pytest.mark.parametrize(
    ("ending", "option"), [(".csv", "--label"), (".png", "--label-column"), (".npz", "--label")]
)
def test_an_option_of_another_kind_of_file_is_wrong_usage(
    ending: str, option: str, honed: Honed, tmp_path: Path
) -> None:
    (tmp_path / f"samples{ending}").touch()
    refused = honed("samples", "add", "any", tmp_path / f"samples{ending}", option, "x")
    assert refused.returncode == 2
    assert option in refused.stderr


def test_a_description_that_is_no_json_is_named(honed: Honed, tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(image_model())
    (tmp_path / "preprocess.json").write_text("{")
    refused = honed(
        *("models", "add", tmp_path / "model.onnx", "--loss", "cross_entropy"),
        *("--preprocess", tmp_path / "preprocess.json"),
    )
    assert refused.returncode == 1
    assert "preprocess.json: not JSON" in refused.stderr


def test_an_image_outside_a_class_is_skipped_and_named(
    honed: Honed, client: Client, model: str, folder: Path
) -> None:
    (folder / "stray.png").write_bytes(photo(60, 3))
    (folder / "night").mkdir()
    (folder / "night" / "moon.png").write_bytes(photo(60, 4))
    phone = folder / "dark" / "IMG_1.HEIC"
    phone.write_bytes(b"what a phone writes")
    refused = honed("samples", "add", model, phone.parent)
    assert f"{phone}: it is no PNG, JPEG, WebP, WAV or FLAC. Convert it" in refused.stderr

    skipped = honed("samples", "add", model, folder, "--on-error", "skip")

    assert skipped.returncode == 0, skipped.stderr
    assert "3 accepted, 0 duplicates, 3 rejected" in skipped.stdout
    assert f"skipped {folder / 'stray.png'}: no folder that it lies in" in skipped.stderr
    assert f"skipped {folder / 'night' / 'moon.png'}: " in skipped.stderr
    assert labels(client, model) == [1, 0, 0]


def test_a_folder_of_images_that_nobody_sorted_is_taken_without_labels(
    honed: Honed, client: Client, model: str, tmp_path: Path
) -> None:
    (tmp_path / "camera").mkdir()
    for at in range(2):
        (tmp_path / "camera" / f"{at}.png").write_bytes(photo(60 + at, at))

    done = honed("samples", "add", model, tmp_path / "camera")

    assert done.returncode == 0, done.stderr
    assert labels(client, model) == [None, None]


def test_a_folder_named_as_a_number_labels_nothing(
    honed: Honed, client: Client, folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "model.onnx").write_bytes(image_model())
    added = honed(
        *("models", "add", tmp_path / "model.onnx", "--name", "gauges", "--loss", "mse"),
        *("--class", "dark", "--class", "bright", "--preprocess", json.dumps(PREPROCESS)),
    )
    assert added.returncode == 0, added.stderr
    done = honed("samples", "add", "gauges", folder)
    assert "3 accepted" in done.stdout, done.stderr
    assert labels(client, "gauges") == [None] * 3


def test_a_description_may_stand_in_the_command(honed: Honed, tmp_path: Path) -> None:
    (tmp_path / "inline.onnx").write_bytes(image_model())
    done = honed(
        *("models", "add", tmp_path / "inline.onnx", "--loss", "cross_entropy", "--json"),
        *("--preprocess", json.dumps(PREPROCESS)),
    )
    assert done.returncode == 0, done.stderr
    wrong = honed(
        *(
            "models",
            "add",
            tmp_path / "inline.onnx",
            "--loss",
            "mse",
            "--preprocess",
            "nowhere.json",
        )
    )
    assert "nowhere.json: No such file" in wrong.stderr


def test_a_folder_in_which_no_image_has_a_class_is_refused(
    honed: Honed, model: str, tmp_path: Path
) -> None:
    (tmp_path / "others" / "more").mkdir(parents=True)
    (tmp_path / "others" / "more" / "a.png").write_bytes(photo(60, 3))

    refused = honed("samples", "add", model, tmp_path / "others", "--on-error", "skip")

    assert refused.returncode == 1
    assert "of each file below it, no folder" in refused.stderr


def test_texts_come_from_a_folder_a_file_and_json_lines_and_are_found(
    honed: Honed, client: Client, tmp_path: Path
) -> None:
    (tmp_path / "m.onnx").write_bytes(classifier(64, 2))
    (tmp_path / "tokenizer.json").write_bytes(tokenizer(["good morning", "see you"]))
    added = honed(
        *("models", "add", tmp_path / "m.onnx", "--name", "notes", "--loss", "cross_entropy"),
        *("--class", "no", "--class", "yes", "--tokenizer", tmp_path / "tokenizer.json"),
        *("--preprocess", '{"kind": "text", "max_tokens": 16}'),
    )
    assert added.returncode == 0, added.stderr
    for place, text in (("yes/a.txt", "good morning"), ("no/b/c.TXT", "see you")):
        (tmp_path / "texts" / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "texts" / place).write_text(text)
    (tmp_path / "texts" / "yes" / "picture.png").write_bytes(photo(9, 1))
    (tmp_path / "one.txt").write_text("see nobody")
    (tmp_path / "more.jsonl").write_text('{"text": "see them"}\n{"text": "noon", "label": 1}\n')
    sources = [tmp_path / each for each in ("texts", "one.txt", "more.jsonl")]
    sent = honed("samples", "add", "notes", *sources, "--json")
    assert sent.returncode == 0, sent.stderr
    assert [each["accepted"] for each in json.loads(sent.stdout)] == [2, 1, 2]
    assert labels(client, "notes") == [0, 1, None, None, 1]
    found = honed("samples", "list", "notes", "--text", "SEE", "--json")
    assert len(json.loads(found.stdout)) == 3
    labelled = honed("samples", "add", "notes", tmp_path / "one.txt", "--label", "no", "--json")
    assert json.loads(labelled.stdout)[0]["duplicates"] == 1
    assert labels(client, "notes") == [0, 1, 0, None, 1]
    gone = honed("samples", "delete", "notes", "--text", "SEE", "--label", "no", "--yes", "--json")
    assert json.loads(gone.stdout)["deleted"] == 2
    assert labels(client, "notes") == [1, None, 1]


def test_the_folders_images_and_masks_are_photos_with_their_labels(
    honed: Honed, client: Client, tmp_path: Path
) -> None:
    name = "masks-of-folders"
    (tmp_path / "model.onnx").write_bytes(mask_model())
    (tmp_path / "preprocess.json").write_text(json.dumps(MASK_PREPROCESS))
    added = honed(
        *("models", "add", tmp_path / "model.onnx", "--name", name, "--loss", "cross_entropy"),
        *("--preprocess", tmp_path / "preprocess.json"),
    )
    assert added.returncode == 0, added.stderr
    for folder in ("images/day", "masks/day"):
        (tmp_path / "scenes" / folder).mkdir(parents=True)
    for number in range(3):
        pixels, classes = scene(number)
        (tmp_path / f"scenes/images/day/{number}.png").write_bytes(png(pixels))
        (tmp_path / f"scenes/masks/day/{number}.png").write_bytes(png(classes))
    (tmp_path / "scenes/masks/day/2.png").rename(tmp_path / "scenes/masks/day/._0.png")
    (tmp_path / "scenes/masks/day/1.png").rename(tmp_path / "scenes/masks/day/1.PNG")

    sent = honed("samples", "add", name, tmp_path / "scenes", "--json")
    assert sent.returncode == 0, sent.stderr
    assert [bool(label) for label in labels(client, name)] == [True, True, False]
    last = json.loads(sent.stdout)[0]["ids"][1]
    mask, back = tmp_path / "mask.png", tmp_path / "back.png"
    mask.write_bytes(png(scene(2)[1]))
    assert honed("samples", "label", name, last, "--mask", mask).returncode == 0
    assert honed("samples", "show", name, last, "--mask", back).returncode == 0
    assert back.read_bytes() == mask.read_bytes()

    photo_file = tmp_path / "scenes/images/day/0.png"
    assert honed("predict", name, photo_file, "--mask", tmp_path / "said.png").returncode == 0
    with Image.open(tmp_path / "said.png") as said:
        assert said.size == (32, 24)

    (tmp_path / "scenes/masks/strange.png").write_bytes(png(scene(0)[1]))
    refused = honed("samples", "add", name, tmp_path / "scenes")
    assert refused.returncode == 1
    assert "strange.png: no photo in" in refused.stderr

    (tmp_path / "scenes/masks/day/2.bmp").write_bytes(b"BM")
    refused = honed("samples", "add", name, tmp_path / "scenes")
    assert "2.bmp: a mask is a PNG" in refused.stderr
