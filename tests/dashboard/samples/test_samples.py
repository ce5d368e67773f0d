"""Samples in the console: added, filtered, labelled by keyboard, deleted, and scrolled."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import LOW_CONTRAST, Tab
from pictures import PREPROCESS, image_model, photo
from support import Served, mlp, wait_until

CLASSES = ["dark", "bright"]
OPTIONS = "[role=option]"
DROP = """
(files) => {
  const transfer = new DataTransfer();
  for (const { name, content } of files) {
    const bytes = Uint8Array.from(atob(content), (character) => character.charCodeAt(0));
    transfer.items.add(new File([bytes], name));
  }
  const target = document.querySelector("[data-key=samples]");
  target.dispatchEvent(new DragEvent("drop", { dataTransfer: transfer, bubbles: true }));
}
"""

PHONE = {"width": 390, "height": 844}
IS_IN_VIEW = "it => (({ y }) => 0 <= y && y < innerHeight)(it.getBoundingClientRect())"
PICTURE = "canvas:not([width='1'])"
"""One that is loaded."""
PRESS = """
([key, times]) => {
  const grid = document.getElementById("grid");
  grid.focus();
  for (let time = 0; time < times; time += 1) {
    grid.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  }
}
"""
"""A key faster than frames."""


@pytest.fixture
def album(served: Served, request: pytest.FixtureRequest) -> str:
    """The name of a model of pictures."""
    name = request.node.name.removeprefix("test_").replace("_", "-")[:40]
    served.register(name, image_model(), classes=CLASSES, preprocess=[PREPROCESS])
    return name


def add(served: Served, album: str, count: int) -> list[int]:
    """Unlabelled pictures, dark and bright by turns, and their ids."""
    files = [("file", (f"{at}.png", photo(200 * (at % 2), at), "image/png")) for at in range(count)]
    answer = served.http.post(f"/v1/models/{album}/samples", files=files)
    first, last = answer.json()["ids"]
    return list(range(first, last + 1))


def labels(served: Served, album: str) -> list[Any]:
    items = served.http.get(f"/v1/models/{album}/samples").json()["items"]
    return [entry["label"] for entry in items]


def test_pictures_are_dropped_and_labelled_by_their_folder(
    tab: Callable[..., Tab], served: Served, album: str, tmp_path: Path
) -> None:
    page = tab(served).open(f"/models/{album}/samples")
    page.get_by_text("No samples yet.").wait_for()
    for name in CLASSES:
        (tmp_path / "all" / name).mkdir(parents=True)
        for at in range(15):
            picture = photo(200 if name == "bright" else 20, at + 50 * len(name))
            (tmp_path / "all" / name / f"{at}.png").write_bytes(picture)
    (tmp_path / "all" / "notes.txt").write_text("no picture")

    page.get_by_label("Choose a folder").set_input_files(tmp_path / "all")

    page.get_by_text("30 samples added, 1 problem.").wait_for()
    page.get_by_text("1 file skipped: this model takes PNG, JPEG and WebP").wait_for()
    page.locator(OPTIONS).nth(29).wait_for()
    assert sorted(labels(served, album)) == [0] * 15 + [1] * 15

    broken = {"name": "broken.png", "content": base64.b64encode(b"none").decode()}
    good = {"name": "good.png", "content": base64.b64encode(photo(99, 999)).decode()}
    page.evaluate(DROP, [broken, good])

    page.get_by_role("alert").get_by_text("broken.png").wait_for()
    page.get_by_role("option", name="no label").wait_for()


def test_a_picture_that_has_the_focus_before_it_is_shown_is_loaded_as_one(
    tab: Callable[..., Tab], served: Served, album: str
) -> None:
    count = len(add(served, album, 60))
    page = tab(served, viewport=PHONE).open(f"/models/{album}/samples")
    page.locator(OPTIONS).first.wait_for()
    page.wait_for_function("() => !document.querySelector(\"[role=option] canvas[width='1']\")")
    page.evaluate(PRESS, ["ArrowRight", count])
    page.locator(f"{OPTIONS}.active[aria-posinset='{count}'] {PICTURE}").wait_for()


def test_samples_are_labelled_by_keys_and_taken_back(
    tab: Callable[..., Tab], served: Served, album: str
) -> None:
    ids = add(served, album, 6)
    page = tab(served).open(f"/models/{album}/samples?show=unlabelled")
    grid = page.get_by_role("listbox", name="Samples")
    grid.focus()

    page.keyboard.press("ArrowRight")
    page.keyboard.press("Meta+2")  # the browser's: on a Mac it opens the second tab
    page.keyboard.press("1")
    page.get_by_role("option", name=f"Sample {ids[0]}, dark").wait_for()
    page.keyboard.press("2")
    page.get_by_role("option", name=f"Sample {ids[1]}, bright").wait_for()
    assert labels(served, album)[:3] == [0, 1, None]

    page.keyboard.press("u")
    page.get_by_role("option", name=f"Sample {ids[1]}, no label").wait_for()
    assert labels(served, album)[:2] == [0, None]

    page.get_by_role("button", name="Select all").click()
    page.get_by_role("button", name="2 bright").click()
    page.get_by_text("6 samples labelled.").wait_for()
    assert labels(served, album) == [1] * 6
    undo = page.get_by_role("button", name="U Undo", disabled=False)
    undo.focus()
    page.keyboard.press("Enter")
    page.get_by_role("option", name=f"Sample {ids[0]}, dark").wait_for()
    undo.and_(page.locator(":focus")).wait_for()


def test_what_another_tab_or_an_app_changes_is_shown_where_it_stood(
    tab: Callable[..., Tab], served: Served, album: str
) -> None:
    ids = add(served, album, 3)
    page = tab(served).open(f"/models/{album}/samples?show=unlabelled")
    page.locator(OPTIONS).nth(2).wait_for()
    path = f"/v1/models/{album}/samples"

    served.http.patch(f"{path}/{ids[1]}", json={"label": "bright"}).raise_for_status()

    page.get_by_role("option", name=f"Sample {ids[1]}, bright").wait_for()
    page.get_by_text("1 labelled sample, 2 unlabelled").wait_for()
    assert page.locator(OPTIONS).count() == 3
    served.http.delete(f"{path}/{ids[0]}").raise_for_status()
    page.locator(f"#sample-{ids[0]}").wait_for(state="detached")


def test_labels_that_the_daemon_does_not_answer_to_are_told_and_sent_again(
    tab: Callable[..., Tab], served: Served, album: str
) -> None:
    ids = add(served, album, 4)
    one = tab(served)
    page = one.open(f"/models/{album}/samples")
    page.locator(f"#sample-{ids[0]}").click()
    page.route(f"**/samples/{ids[0]}", lambda route: route.abort())
    page.keyboard.press("2")
    page.get_by_text("the daemon did not respond").wait_for()
    page.keyboard.press("1")
    page.get_by_role("option", name=f"Sample {ids[1]}, dark").wait_for()

    told = page.get_by_role("alert").filter(has_text=f"the labels of 1 sample ({ids[0]})")
    told.wait_for()
    page.unroute_all()
    told.get_by_role("button", name="Store").click()
    page.get_by_role("option", name=f"Sample {ids[0]}, bright").wait_for()
    told.wait_for(state="detached")
    assert labels(served, album)[:2] == [1, 0]

    # Another label of the same sample, before there is an answer to the first.
    page.locator(f"#sample-{ids[2]}").click()
    for key in ("1", "ArrowLeft", "2"):
        page.evaluate(PRESS, [key, 1])
    wait_until(lambda: labels(served, album)[2] == 1, "both labels")
    page.keyboard.press("u")
    page.get_by_role("option", name=f"Sample {ids[2]}, dark").wait_for()
    wait_until(lambda: labels(served, album)[2] == 0, "the label before")

    held: list[Any] = []
    page.route(f"**/samples/{ids[3]}", lambda route: held.append(route))  # noqa: PLW0108 - Playwright marks it
    page.locator(f"#sample-{ids[3]}").click()
    page.keyboard.press("1")
    wait_until(lambda: page.wait_for_timeout(20) or held, "the request")
    with page.expect_event("dialog") as asked:
        page.evaluate("() => setTimeout(() => location.reload())")
    assert asked.value.type == "beforeunload"
    asked.value.dismiss()
    held[0].continue_()
    page.get_by_role("option", name=f"Sample {ids[3]}, dark").wait_for()
    one.forgive("ERR_FAILED")


def test_labels_are_given_only_to_samples_that_are_still_listed(
    tab: Callable[..., Tab], served: Served, album: str
) -> None:
    ids = add(served, album, 3)
    page = tab(served).open(f"/models/{album}/samples?show=unlabelled")
    page.locator(OPTIONS).nth(2).wait_for()
    page.get_by_role("button", name="Select all").click()
    page.get_by_role("button", name="1 dark").click()
    page.get_by_text("3 samples labelled.").wait_for()

    files = {"file": ("more.png", photo(200, 99), "image/png")}
    served.http.post(f"/v1/models/{album}/samples", files=files).raise_for_status()
    page.locator(f"#sample-{ids[0]}").wait_for(state="detached")
    page.get_by_role("listbox", name="Samples").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("2")
    page.locator(OPTIONS).filter(has_text="bright").first.wait_for()
    assert labels(served, album) == [0, 0, 0, 1]


def test_samples_are_filtered_and_deleted(
    tab: Callable[..., Tab], served: Served, album: str
) -> None:
    ids = add(served, album, 4)
    served.http.patch(f"/v1/models/{album}/samples/{ids[0]}", json={"label": 1})
    page = tab(served).open(f"/models/{album}/samples")
    page.locator(OPTIONS).nth(3).wait_for()

    page.locator("[data-key=label] select").select_option("bright")
    page.locator(OPTIONS).nth(1).wait_for(state="detached")
    assert page.url.endswith("/samples?label=bright")
    page.get_by_role("option", name=f"Sample {ids[0]}").click()
    page.get_by_role("button", name="Delete … 1 sample").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    page.get_by_text("Sample deleted.").wait_for()

    page.get_by_text("No matching samples.").wait_for()
    assert len(labels(served, album)) == 3
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        assert page.evaluate(LOW_CONTRAST) == []
    page.locator("[data-key=label] select").select_option("")
    page.get_by_role("option", name=f"Sample {ids[2]}").click()
    page.keyboard.press("Delete")
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    page.locator(f"#sample-{ids[3]}.active").wait_for()


def test_a_sample_stays_in_view_under_fast_keys_and_on_the_way_back(
    tab: Callable[..., Tab], served: Served
) -> None:
    served.register("hurried", mlp(4, 3))
    values = np.arange(1_600, dtype=np.float32).reshape(-1, 4)
    served.upload("hurried", x=values, label=np.zeros(len(values), np.int64))
    page = tab(served).open("/models/hurried/samples")
    page.locator(OPTIONS).first.wait_for()
    page.evaluate(PRESS, ["ArrowDown", 301])
    active = page.locator("[role=option].active[aria-posinset='301']")
    active.wait_for()
    assert active.evaluate(IS_IN_VIEW)

    page.get_by_role("link", name="Predict sample").click()
    page.get_by_role("heading", name="Try it").wait_for()
    page.go_back()
    active.wait_for()
    wait_until(lambda: active.evaluate(IS_IN_VIEW), "the sample to be in view again")


def test_ten_thousand_samples_scroll_with_two_hundred_on_the_page(
    tab: Callable[..., Tab], served: Served
) -> None:
    served.register("many", mlp(3, 2))
    values = np.arange(30_000, dtype=np.float32).reshape(-1, 3)
    served.upload("many", x=values, label=np.zeros(len(values), np.int64))
    page = tab(served).open("/models/many/samples")
    page.locator(OPTIONS).first.get_by_text("0  1  2").wait_for()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))

    last = served.http.get("/v1/models/many/samples?limit=1").json()["items"][0]["id"] + 9_999

    def has_reached_the_end() -> bool:
        page.evaluate("window.scrollTo(0, document.body.scrollHeight)")
        assert 1 < page.locator(OPTIONS).count() <= 200
        return page.locator(f"#sample-{last}").count() == 1

    wait_until(has_reached_the_end, "the last sample")
    page.locator(f"#sample-{last}").get_by_text("30,000").first.wait_for()
    assert len([each for each in asked if each.endswith("/content")]) < 2_000
    assert len([each for each in asked if "/samples?limit=" in each]) < 20, "each page once"


def test_all_samples_are_downloaded_deleted_by_filter_and_taken_back(
    tab: Callable[..., Tab], served: Served, album: str, tmp_path: Path
) -> None:
    ids = add(served, album, 5)
    for sample in ids[:3]:
        served.http.patch(f"/v1/models/{album}/samples/{sample}", json={"label": 1})
    page = tab(served).open(f"/models/{album}/samples?label=bright")
    page.locator(OPTIONS).nth(2).wait_for()

    with page.expect_download() as waiting:
        page.get_by_role("button", name="Download all").click()
    assert waiting.value.suggested_filename == f"{album}-samples.zip"
    waiting.value.save_as(tmp_path / "samples.zip")
    page.get_by_role("button", name="Delete all …").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("Delete all samples with: label bright?").wait_for()
    dialog.get_by_role("button", name="Delete").click()
    page.get_by_text("3 samples deleted.").wait_for()
    assert labels(served, album) == [None, None]

    page.locator("[data-key=label] select").select_option("any")
    page.locator(OPTIONS).nth(1).wait_for()
    page.get_by_role("button", name="Delete all …").click()
    dialog.get_by_text(f"Delete all samples of {album}?").wait_for()
    dialog.get_by_role("button", name="Delete").click()
    page.get_by_text("No samples yet. Drop files here").wait_for()

    page.get_by_label("Choose files").set_input_files(tmp_path / "samples.zip")
    page.get_by_text("5 samples added.").wait_for()
    page.locator(OPTIONS).nth(4).wait_for()
    assert labels(served, album) == [1, 1, 1, None, None]
