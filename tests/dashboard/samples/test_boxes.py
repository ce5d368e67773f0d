"""Boxes in the console: over their photos, drawn, changed by pointer and keys, predicted."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from boxes import CLASSES, PREPROCESS, box_model, street
from browser import SERIOUS, Tab
from masks import png
from support import Served, wait_until

WIDTH, HEIGHT = 64, 48
"""Of the photos."""
NAME = "finder"


@pytest.fixture(scope="module")
def photos(served: Served) -> list[int]:
    """A photo with boxes, and one without a label."""
    served.register(NAME, box_model(), loss="detection", classes=CLASSES, preprocess=PREPROCESS)
    return [sent(served, [BAR, SQUARE]), int(post(served, png(street(1)[0]))["ids"][0])]


FASTER_THAN_FRAMES = """() => {
  for (const [key, held] of [["2", {}], ["ArrowRight", {}], ["ArrowUp", { shiftKey: true }]]) {
    const options = { key, ctrlKey: key !== "2", bubbles: true, ...held };
    document.activeElement.dispatchEvent(new KeyboardEvent("keydown", options));
  }
}"""
"""Gives a box its second class, moves it right and makes it less high."""
IS_UNCOVERED = """it => {
  const { left, top } = it.getBoundingClientRect();
  return it.contains(document.elementFromPoint(left + 9, top + 9));
}"""
BAR = {"box": [4, 6, 20, 8], "label": "bar"}
SQUARE = {"box": [30, 20, 12, 12], "label": "square"}


def sent(served: Served, boxes: list[Any]) -> int:
    """The id of a new photo with these boxes."""
    params = {"label": json.dumps({"boxes": boxes})}
    return int(post(served, png(street(len(boxes))[0]), **params)["ids"][0])


def post(served: Served, photo: bytes, **params: str) -> dict[str, Any]:
    headers = {"Content-Type": "image/png"}
    path = f"/v1/models/{NAME}/samples"
    answer = served.http.post(path, content=photo, params=params, headers=headers)
    answer.raise_for_status()
    told: dict[str, Any] = answer.json()
    return told


def boxes_of(served: Served, sample: int) -> Any:
    label = served.http.get(f"/v1/models/{NAME}/samples/{sample}").json()["label"]
    return None if label is None else label["boxes"]


def drag(page: Any, surface: Any, begin: tuple[float, float], end: tuple[float, float]) -> None:
    """With the pointer, in pixels of the photo."""
    room = surface.bounding_box()
    scale = min(room["width"] / WIDTH, room["height"] / HEIGHT)
    left = room["x"] + (room["width"] - scale * WIDTH) / 2
    page.mouse.move(left + begin[0] * scale, room["y"] + begin[1] * scale)
    page.mouse.down()
    page.mouse.move(left + end[0] * scale, room["y"] + end[1] * scale, steps=3)
    page.mouse.up()


def test_boxes_are_drawn_moved_resized_and_removed(
    tab: Callable[..., Tab], served: Served, photos: list[int], axe: str
) -> None:
    sample = photos[0]
    page = tab(served).open(f"/models/{NAME}/samples")
    row = page.locator(f"#sample-{sample}")
    row.locator(".box").nth(1).wait_for(state="attached")
    assert row.locator(".label").inner_text() == "bar, square"
    row.click()
    editor = page.get_by_role("group", name=f"Boxes of sample {sample}")
    surface = editor.get_by_role("group", name=f"Photo of sample {sample}")

    def becomes(place: int, label: str, *sides: float) -> None:
        def is_there() -> bool:
            found = boxes_of(served, sample)
            if len(found) <= place or found[place]["label"] != label:
                return False
            return all(abs(a - b) < 0.6 for a, b in zip(found[place]["box"], sides, strict=True))

        wait_until(is_there, f"box {place} at {sides}")

    drag(page, surface, (6, 30), (22, 44))
    becomes(2, "square", 6, 30, 16, 14)
    drag(page, surface, (36, 26), (40, 30))
    becomes(1, "square", 34, 24, 12, 12)
    drag(page, surface, (46, 36), (64, 48))
    becomes(1, "square", 34, 24, 30, 24)
    editor.get_by_role("button", name="2 bar").click()
    becomes(1, "bar", 34, 24, 30, 24)
    page.evaluate(axe)
    assert page.evaluate(SERIOUS) == []

    editor.get_by_role("button", name="Remove box").click()
    wait_until(lambda: len(boxes_of(served, sample)) == 2, "a box less")
    page.get_by_role("button", name="Undo").click()
    becomes(1, "bar", 34, 24, 30, 24)
    editor.get_by_role("button", name="No boxes").click()
    row.get_by_text("no boxes").wait_for()
    assert boxes_of(served, sample) == []


def test_boxes_are_drawn_by_keys_alone(
    tab: Callable[..., Tab], served: Served, photos: list[int]
) -> None:
    sample = photos[1]
    page = tab(served).open(f"/models/{NAME}/samples")
    page.locator(f"#sample-{sample}").click()
    editor = page.get_by_role("group", name=f"Boxes of sample {sample}")
    editor.get_by_role("button", name="Add a box").press("Enter")
    box = editor.get_by_role("button", name="square at 16, 12, 32 by 24")
    box.focus()
    page.evaluate(FASTER_THAN_FRAMES)
    editor.get_by_role("button", name="bar at 17, 12, 32 by 23").wait_for()
    wait_until(
        lambda: boxes_of(served, sample) == [{"box": [17, 12, 32, 23], "label": "bar"}],
        "the stored box",
    )
    page.keyboard.press("Delete")
    wait_until(lambda: boxes_of(served, sample) == [], "no box")


def test_a_photo_far_down_the_list_is_drawn_on_beside_it(
    tab: Callable[..., Tab], served: Served, photos: list[int]
) -> None:
    del photos
    files = [("file", (f"{n}.png", png(street(n)[0]), "image/png")) for n in range(100, 120)]
    path = f"/v1/models/{NAME}/samples"
    last = served.http.post(path, files=files).raise_for_status().json()["ids"][-1]
    page = tab(served, viewport={"width": 390, "height": 640}).open(f"/models/{NAME}/samples")
    page.locator("[role=option]").first.wait_for()

    def is_at_the_end() -> bool:
        page.evaluate("window.scrollTo(0, document.body.scrollHeight)")
        return bool(page.locator(f"#sample-{last}").count())

    wait_until(is_at_the_end, "the last photo")
    page.locator(f"#sample-{last}").click()
    surface = page.get_by_role("group", name=f"Photo of sample {last}")
    wait_until(lambda: surface.evaluate(IS_UNCOVERED), "the photo to be in view")
    for _ in range(3):
        page.keyboard.press("ArrowUp")
    active = page.locator(f"#sample-{last - 6}.active")
    wait_until(lambda: active.evaluate(IS_UNCOVERED), "the sample to be below its photo")


def test_predicted_boxes_are_shown_and_kept(
    tab: Callable[..., Tab], served: Served, photos: list[int]
) -> None:
    del photos
    page = tab(served).open(f"/models/{NAME}/try")
    found = {"box": [3.5, 4, 20, 10], "label": "bar", "probability": 0.9}
    doubtful = {**found, "probability": 0.1, "box": [30, 30, 5, 5]}
    answer = {"model": NAME, "version": 1, "classes": CLASSES}
    answer["predictions"] = [{"boxes": [found, doubtful]}]
    page.route(f"**/v1/models/{NAME}/predict", lambda route: route.fulfill(json=answer))
    file = {"name": "one.png", "mimeType": "image/png", "buffer": png(street(7)[0])}
    page.get_by_label("Choose an image").set_input_files(file)
    shown = page.get_by_role("region", name="Prediction of version 1")
    shown.get_by_text("1 box predicted, and 1 of less than 30").wait_for()
    shown.locator(".box text", has_text="bar 90").wait_for()
    page.get_by_role("button", name="These boxes are right").click()
    page.get_by_text("Saved as a sample with these boxes.").wait_for()
    newest = served.http.get(f"/v1/models/{NAME}/samples").json()["items"][-1]
    assert newest["label"] == {"boxes": [{"box": [3.5, 4, 20, 10], "label": "bar"}]}


def test_what_a_version_finds_that_another_did_not_is_marked(
    tab: Callable[..., Tab], served: Served, photos: list[int]
) -> None:
    del photos
    for number, split in enumerate(("train", "train", "validation", "validation")):
        pixels, boxes = street(20 + number)
        post(served, png(pixels), label=json.dumps({"boxes": boxes}), split=split)
    served.train(NAME, max_steps=2, seed=1, learning_rate=0.01)
    page = tab(served).open(f"/models/{NAME}")

    def answer(route: Any) -> None:
        version = int(route.request.url.rpartition("=")[2])
        other = {"box": [0, 0, 6, 6], "label": "bar", "probability": 0.8}
        boxes = [SQUARE | {"probability": 0.9}, other if version == 1 else BAR]
        told = {"model": NAME, "version": version, "classes": CLASSES}
        route.fulfill(json={**told, "predictions": [{"boxes": boxes}]})

    page.route(f"**/v1/models/{NAME}/predict?version=*", answer)
    page.get_by_role("link", name="Compare", exact=True).click()
    item = page.get_by_role("listitem").filter(has_text="finds 1 more (thick), 1 less").first
    item.wait_for()
    kinds = [item.locator(f".box.{kind}").count() for kind in ("thin", "chosen", "lost")]
    assert kinds == [1, 1, 1]
