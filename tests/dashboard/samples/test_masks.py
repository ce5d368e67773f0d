"""Masks in the console: painted over their photos in the list and beside predictions."""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import SERIOUS, Tab
from masks import CLASSES, PREPROCESS, mask_model, png, scene
from PIL import Image
from support import Served, wait_until

SIDE = 32
ORANGE, BLUE = (230, 159, 0), (86, 180, 233)
"""What the first two classes after the ground are painted with."""


@pytest.fixture(scope="module")
def masked(served: Served) -> list[np.ndarray]:
    """A photo with a gray mask, one whose mask has a palette, and one without; their classes."""
    served.register("painted", mask_model(), classes=CLASSES, preprocess=PREPROCESS)
    scenes = [scene(n, size=(SIDE, SIDE)) for n in range(3)]
    files = [("file", (f"{n}.png", png(photo))) for n, (photo, _) in enumerate(scenes)]
    files += [
        ("mask", (f"{n}.png", png(scenes[n][1], palette=bool(n)), "image/png")) for n in range(2)
    ]
    served.http.post("/v1/models/painted/samples", files=files).raise_for_status()
    return [np.where(n < 2, classes, 0) for n, (_, classes) in enumerate(scenes)]


def pixels(canvas: Any) -> np.ndarray:
    """(height, width, 3) of what a canvas shows."""
    # Read from a copy: the browser warns of a canvas that is itself read more than once.
    shown = canvas.evaluate(
        """it => {
            const copy = new OffscreenCanvas(it.width, it.height).getContext('2d');
            copy.drawImage(it, 0, 0);
            return [...copy.getImageData(0, 0, it.width, it.height).data];
        }"""
    )
    return np.array(shown).reshape(SIDE, SIDE, 4)[:, :, :3]


def test_masks_are_painted_over_their_photos(
    tab: Callable[..., Tab], served: Served, masked: list[np.ndarray]
) -> None:
    page = tab(served).open("/models/painted/samples")
    page.get_by_role("option", name="mask 32\u00d732").nth(1).wait_for()
    for place, classes in enumerate(masked):
        canvas = page.locator("[role=option]").nth(place).locator("canvas[width='32']")
        canvas.wait_for()
        share, colours = 150 / 255, np.array([(0, 0, 0), ORANGE, BLUE])
        photo = scene(place, size=(SIDE, SIDE))[0].astype(float)
        painted = photo * (1 - share) + colours[classes] * share
        wanted = np.where(classes[..., None] > 0, painted, photo)
        wait_until(partial(is_near, canvas, wanted), "the mask over the photo")


def test_the_masks_of_a_folder_are_the_labels_of_its_photos(
    tab: Callable[..., Tab], served: Served, masked: list[np.ndarray], tmp_path: Path
) -> None:
    photo, classes = scene(9, size=(SIDE, SIDE))
    for place, picture in (("images", photo), ("masks", classes)):
        (tmp_path / f"road/{place}/day").mkdir(parents=True)
        (tmp_path / f"road/{place}/day/a.png").write_bytes(png(picture))
    (tmp_path / "road/masks/alone.png").write_bytes(png(classes))
    before = served.http.get("/v1/models/painted/samples").json()["items"]
    page = tab(served).open("/models/painted/samples")
    page.get_by_label("Choose a folder").set_input_files(tmp_path / "road")
    page.get_by_text("1 sample added, 1 problem.").wait_for()
    page.get_by_text("1 mask skipped").wait_for()
    added = served.http.get("/v1/models/painted/samples").json()["items"][len(before) :]
    assert [each["label"]["size"] for each in added] == [[SIDE, SIDE]]
    # The list asks for its photo, which is gone after the deletion.
    page.locator("[role=option]").nth(len(before)).locator("canvas[width='32']").wait_for()
    served.http.delete(f"/v1/models/painted/samples/{added[0]['id']}").raise_for_status()

    torn = [{"name": f"{n}.png", "mimeType": "image/png", "buffer": b"torn"} for n in range(22)]
    page.get_by_label("Choose files").set_input_files(torn)
    page.get_by_text("0 samples added, 22 problems.").wait_for()
    faults = page.get_by_role("group", name="Add samples").get_by_role("listitem")
    assert faults.count() == 21
    assert faults.nth(3).inner_text().startswith("3.png: it is no PNG")
    assert faults.last.inner_text() == "and 2 more problems"


def is_near(canvas: Any, wanted: np.ndarray) -> bool:
    return bool(np.abs(pixels(canvas) - wanted).max() <= 3)


def test_a_stored_mask_is_shown_beside_the_predicted_one(
    tab: Callable[..., Tab], served: Served, masked: list[np.ndarray]
) -> None:
    del masked
    (sample, *_) = served.http.get("/v1/models/painted/samples").json()["items"]
    page = tab(served).open(f"/models/painted/try?sample={sample['id']}")
    answer = page.get_by_role("region", name="Prediction of version 1")
    answer.locator("figure[data-key=predicted] canvas").wait_for()
    answer.get_by_text(f"Sample {sample['id']}: mask 32\u00d732").wait_for()


def stored(served: Served, sample: int) -> np.ndarray:
    """The values of a sample's mask."""
    content = served.http.get(f"/v1/models/painted/samples/{sample}/mask").content
    with Image.open(io.BytesIO(content)) as opened:
        return np.asarray(opened)


def test_a_mask_is_corrected_with_a_brush_and_a_photo_without_gets_one(
    tab: Callable[..., Tab], served: Served, masked: list[np.ndarray], axe: str
) -> None:
    first, _, bare = [
        entry["id"] for entry in served.http.get("/v1/models/painted/samples").json()["items"]
    ]
    page = tab(served).open("/models/painted/samples")
    page.locator(f"#sample-{first}").click()
    editor = page.get_by_role("group", name=f"Mask of sample {first}")
    editor.get_by_role("button", name="rim").click()
    photo = editor.get_by_role("application")
    room = photo.bounding_box()
    pixel = room["height"] / SIDE
    left = room["x"] + (room["width"] - room["height"]) / 2
    page.mouse.move(left + 2.5 * pixel, room["y"] + 5.5 * pixel)
    page.mouse.down()
    page.mouse.move(left + 20.5 * pixel, room["y"] + 5.5 * pixel, steps=3)
    page.mouse.up()
    wanted = masked[0].copy()
    wanted[5, 2:21] = 2
    wait_until(lambda: np.array_equal(stored(served, first), wanted), "the stored stroke")
    page.get_by_role("button", name="Undo").click()
    wait_until(lambda: np.array_equal(stored(served, first), masked[0]), "the mask as it was")
    page.evaluate(axe)
    assert page.evaluate(SERIOUS) == []

    page.locator(f"#sample-{bare}").click()
    photo = page.get_by_role("group", name=f"Mask of sample {bare}").get_by_role("application")
    photo.press("2")
    for key in ("ArrowRight", "ArrowDown", "Space"):
        photo.press(key)
    page.get_by_role("option", name="mask 32\u00d732").nth(2).wait_for()
    assert np.unique(stored(served, bare)).tolist() == [0, 1]
    page.get_by_role("button", name="Undo").click()
    page.locator(f"#sample-{bare}", has_text="no label").wait_for()


def test_the_masks_of_two_versions_are_shown_beside_each_other(
    tab: Callable[..., Tab], served: Served, masked: list[np.ndarray]
) -> None:
    del masked
    for number, split in enumerate(("train", "validation")):
        photo, classes = (png(each) for each in scene(20 + number, size=(SIDE, SIDE)))
        files = [("file", ("a.png", photo)), ("mask", ("a.png", classes, "image/png"))]
        path = f"/v1/models/painted/samples?split={split}"
        served.http.post(path, files=files).raise_for_status()
    served.train("painted", max_steps=2, seed=1, learning_rate=0.05)
    page = tab(served).open("/models/painted/compare?a=1&b=2")
    item = page.get_by_role("listitem").filter(has=page.locator("figure")).first
    for version in (1, 2):
        item.locator(f"figure[data-key='version {version}'] canvas").wait_for()
