"""What a person does who sees the console for the first time, from the file to the rollback."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import Tab
from pictures import image_model, photo
from predictions import ask, segmenter
from support import Served, mlp

DARK, BRIGHT = 40, 210
PHOTOS = 16
PHONE = {"width": 390, "height": 844}


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """An ONNX file, and pictures in one folder, dark ones first."""
    (tmp_path / "lamp.onnx").write_bytes(image_model())
    (tmp_path / "photos").mkdir()
    for at in range(PHOTOS):
        picture = photo(DARK if at < PHOTOS / 2 else BRIGHT, at)
        (tmp_path / "photos" / f"{at:02}.png").write_bytes(picture)
    return tmp_path


def test_a_person_adds_a_model_labels_trains_and_rolls_back(
    tab: Callable[..., Tab], served: Served, files: Path
) -> None:
    name = "lamp"
    page = tab(served, viewport=PHONE).open()
    page.get_by_role("navigation", name="Console").get_by_role("link", name="Models").click()
    page.get_by_role("link", name="Add a model").click()
    choose(page, "Choose a file", files / "lamp.onnx")
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_label("Classes, comma").fill("dark, bright")
    page.get_by_label("Sample format").select_option("gray")
    page.get_by_role("button", name="Register the model").click()

    page.get_by_label("Choose a folder").set_input_files(files / "photos")
    page.get_by_text(f"{PHOTOS} samples added.").wait_for()
    label_all(page)
    page.get_by_text(f"{PHOTOS} labelled samples, 0 unlabelled").wait_for()

    for version in (2, 3):
        page.get_by_role("button", name=f"Train … {name}").click()
        page.get_by_label("Epochs").first.fill("30")
        page.get_by_label("Learning rate").fill("0.01")
        page.get_by_role("button", name="Queue the job").click()
        page.get_by_role("link", name="Versions").click()
        made = page.get_by_role("listitem", name=f"Version {version}")
        made.locator(".badge", has_text=re.compile("latest|not promoted")).wait_for()
        if made.get_by_text("not promoted").count():
            made.get_by_role("button", name=f"Promote version {version}").click()
        made.get_by_text("latest").wait_for()

    page.get_by_role("button", name="Roll back … version 3").click()
    page.get_by_role("button", name="Roll back", exact=True).click()
    page.get_by_text(f"Apps now fetch version 2 of {name}.").wait_for()
    page.get_by_role("link", name="Try it").click()
    page.get_by_label("Choose an image").set_input_files(files / "photos" / "00.png")
    page.get_by_role("heading", name="Prediction of version 2").wait_for()
    latest = served.http.get(f"/v1/models/{name}/latest").json()
    assert latest["version"] == 2
    page.goto(f"{served.url}/dashboard/jobs/{latest['job_id']}")
    curve = page.get_by_role("img", name="Loss curve")
    for step in ("10", "20", "30"):
        curve.get_by_text(step, exact=True).wait_for()


def choose(page: Any, title: str, file: Path) -> None:
    """Choose a model's file, and wait for the form: each file has fresh fields."""
    page.get_by_label(title).set_input_files(file)
    page.get_by_role("group", name="The file").get_by_text(file.name).wait_for()


def label_all(page: Any) -> None:
    """Give each picture its class by keys."""
    page.locator(f"[role=option][aria-setsize='{PHOTOS}']").first.wait_for()
    page.get_by_role("listbox", name="Samples").focus()
    page.keyboard.press("ArrowRight")
    for at in range(PHOTOS):
        option = page.locator("[role=option].active")
        option.filter(has_text="no label").wait_for()
        page.keyboard.press("1" if at < PHOTOS / 2 else "2")
    page.get_by_text("0 unlabelled").wait_for()


def test_what_is_tried_and_corrected_becomes_a_sample(
    tab: Callable[..., Tab], served: Served
) -> None:
    served.register("tried", mlp(3, 2), classes=["no", "yes"])
    one = tab(served)
    page = one.open("/models/tried/try")
    page.get_by_label(re.compile("^x")).fill("0.1 0.2")
    page.get_by_role("button", name="Predict").click()
    page.get_by_role("alert").get_by_text("the model takes [3]").wait_for()

    page.get_by_label(re.compile("^x")).fill("0.1, 0.2, 0.3")
    page.get_by_role("button", name="Predict").click()
    page.get_by_role("button", name="yes is right").click()

    page.get_by_role("status").get_by_text("Saved as a sample labelled yes.").wait_for()
    (sample,) = served.http.get("/v1/models/tried/samples").json()["items"]
    assert sample["label"] == 1
    one.forgive("422")


def test_a_mask_that_is_tried_shows_the_share_of_each_class(
    tab: Callable[..., Tab], served: Served
) -> None:
    served.register("sea", segmenter(4, 2), classes=["sky", "water"])
    pixels = np.random.default_rng(2).standard_normal((1, 1, 4, 4), dtype=np.float32)
    (said,) = ask(served, "sea", pixels[0]).json()["predictions"]
    page = tab(served).open("/models/sea/try")
    page.get_by_label(re.compile("^x")).fill(" ".join(map(str, pixels.ravel())))
    page.get_by_role("button", name="Predict").click()
    assert set(np.ravel(said["label"])) == {0, 1}
    bar = page.get_by_role("meter", name="Share of water")
    bar.wait_for()
    assert float(bar.get_attribute("value")) == np.mean(said["label"])


def test_a_file_that_cannot_train_says_why_beside_its_fields(
    tab: Callable[..., Tab], served: Served, files: Path
) -> None:
    one = tab(served)
    page = one.open("/add")
    (files / "broken.onnx").write_bytes(b"none")
    page.get_by_label("Choose a file").set_input_files(files / "broken.onnx")
    page.get_by_role("button", name="Register the model").click()
    page.get_by_role("group", name="The file").get_by_text(
        "this is not a whole ONNX file"
    ).wait_for()

    choose(page, "Choose another", files / "lamp.onnx")
    page.get_by_label("Name", exact=True).fill("two words")
    page.get_by_role("button", name="Register the model").click()
    page.locator("[data-key=name] .problem").wait_for()
    one.forgive("422")
