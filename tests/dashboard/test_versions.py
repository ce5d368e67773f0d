"""A model's versions in the console: aliases, checkpoints, drift, and two compared."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from browser import SERIOUS, Tab
from pictures import image_model
from support import Served, blobs, mlp, wait_until

PHONE = {"width": 390, "height": 844}
NAME = "kept"
CHECKPOINTS = f"/v1/models/{NAME}/checkpoints"


@pytest.fixture(scope="module")
def trained(served: Served) -> Served:
    """A model with two trained versions; the inputs have drifted since the second."""
    gate = {"mode": "always", "hold_on_drift": False}
    served.register(NAME, mlp(3, 8, 2), gate=gate, hyperparameters={"epochs": 1})
    samples = blobs(300, 3, 2)
    served.upload(NAME, split="train", **samples)
    for _ in range(2):
        served.train(NAME, ignore_policy=True)
    moved = samples["x"] + np.array([9, 0, 0], np.float32)
    served.upload(NAME, split="train", x=moved, label=samples["label"])
    return served


def test_aliases_are_set_moved_and_removed(tab: Callable[..., Tab], trained: Served) -> None:
    one = tab(trained)
    page = one.open(f"/models/{NAME}")
    card = page.get_by_role("region", name="Aliases")
    card.get_by_text("Set an alias").click()

    card.get_by_role("textbox", name="Alias").fill("two words")
    card.get_by_role("button", name="Set the alias").click()
    card.locator("[data-key=alias] .problem").wait_for()
    for version in (2, 1):
        card.get_by_role("textbox", name="Alias").fill("stable")
        card.get_by_role("combobox", name="Version").select_option(str(version))
        card.get_by_role("button", name="Set the alias").click()
        page.get_by_text(f"stable is now version {version}.").wait_for()
        known = trained.http.get(f"/v1/models/{NAME}/aliases/stable").json()
        assert known["version"] == version
    page.get_by_role("listitem", name="Version 1").get_by_text("stable").wait_for()

    card.get_by_role("button", name="Remove alias stable").click()
    card.get_by_role("listitem", name="Alias stable").wait_for(state="detached")
    (left,) = trained.http.get(f"/v1/models/{NAME}/aliases").json()["items"]
    assert left["alias"] == "latest"
    assert card.get_by_role("button", name="Remove alias latest").count() == 0
    one.forgive("422")


def test_checkpoints_are_trained_from_noted_pinned_downloaded_and_deleted(
    tab: Callable[..., Tab], trained: Served
) -> None:
    one = tab(trained, viewport=PHONE)
    page = one.open(f"/models/{NAME}")
    card = page.get_by_role("region", name="Checkpoints")
    oldest = trained.http.get(CHECKPOINTS).json()["items"][-1]["id"]
    first = card.get_by_role("listitem", name=f"Checkpoint {oldest}")
    with page.expect_download() as waiting:
        first.get_by_role("button", name="Download").click()
    content = trained.http.get(f"/v1/checkpoints/{oldest}/content").content
    assert Path(waiting.value.path()).read_bytes() == content

    first.get_by_role("button", name="Train from this …").click()
    page.get_by_label("Epochs", exact=True).fill("100000")
    page.get_by_label("Train now, ignoring").check()
    page.get_by_role("button", name="Queue the job").click()
    page.get_by_role("link", name="queued").wait_for()
    job = max(trained.http.get("/v1/jobs").json()["items"], key=lambda each: each["id"])
    assert job["hyperparameters"]["from"] == str(oldest)
    wait_until(lambda: trained.job(job["id"])["progress"]["step"] > 0, "a step")
    trained.http.post(f"/v1/jobs/{job['id']}/pause").raise_for_status()
    saved = card.get_by_role("listitem").filter(has=page.get_by_text("periodic")).first
    saved.get_by_text("Pin, note, delete").click()

    saved.get_by_label("Note").fill("before the move")
    saved.get_by_label("Keep until").check()
    saved.get_by_role("button", name="Save").click()
    saved.get_by_text("pinned", exact=True).wait_for()
    saved.locator("p", has_text="before the move").wait_for()
    known = trained.http.get(CHECKPOINTS).json()["items"][0]
    assert (known["note"], known["pinned"]) == ("before the move", True)

    saved.get_by_role("button", name="Delete …").click()
    page.get_by_role("button", name="Delete the checkpoint").click()
    page.get_by_role("alert").get_by_text("may go on from it").wait_for()
    trained.http.post(f"/v1/jobs/{job['id']}/cancel").raise_for_status()
    trained.wait_for_job(job["id"], "cancelled")
    page.get_by_role("button", name="Delete the checkpoint").click()
    page.get_by_text(f"Checkpoint {known['id']} deleted.").wait_for()
    assert trained.http.get(f"/v1/checkpoints/{known['id']}").status_code == 404
    one.forgive("409")


def test_drift_is_compared_on_request_with_each_limit(
    tab: Callable[..., Tab], trained: Served, axe: str
) -> None:
    page = tab(trained, viewport=PHONE).open(f"/models/{NAME}")
    card = page.get_by_role("region", name="Drift", exact=True)
    card.get_by_text("with those that version 3 was trained on").wait_for()
    assert card.get_by_role("table").count() == 0

    card.get_by_role("button", name="Compare recent inputs").click()

    card.get_by_text("drifted", exact=True).wait_for()
    report = trained.http.get(f"/v1/models/{NAME}/drift").json()
    rows = card.get_by_role("row")
    assert rows.count() == 1 + report["compared"]
    rows.nth(1).get_by_role("img", name="above its limit").wait_for()
    rows.nth(1).get_by_role("cell", name=str(report["features"][0]["limit"])).wait_for()
    rows.nth(2).get_by_role("img", name="within its limit").wait_for()
    page.evaluate(axe)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert page.evaluate(SERIOUS) == []
    page.reload()
    card.get_by_role("button", name="Compare again recent inputs").wait_for()
    card.get_by_role("table").wait_for()


def test_a_version_tells_what_it_was_trained_on(tab: Callable[..., Tab], trained: Served) -> None:
    path = f"/v1/models/{NAME}/versions/2/samples"
    gone = trained.http.get(path).json()["items"][1]["id"]
    trained.http.delete(f"/v1/models/{NAME}/samples/{gone}").raise_for_status()
    page = tab(trained).open(f"/models/{NAME}")

    page.get_by_role("button", name="Trained on … version 2").click()

    dialog = page.get_by_role("dialog")
    dialog.get_by_text("300 samples, including those").wait_for()
    items = dialog.get_by_role("list", name="Samples").get_by_role("listitem")
    items.filter(has_text=f"sample {gone}").get_by_text("deleted").wait_for()
    dialog.get_by_text(f"and {300 - items.count()} more").wait_for()
    dialog.get_by_role("button", name="Close").click()
    assert page.get_by_role("button", name="Trained on … version 1").count() == 0


def test_a_rollback_is_of_the_version_that_its_question_names(
    tab: Callable[..., Tab], trained: Served
) -> None:
    page = tab(trained).open(f"/models/{NAME}")
    page.get_by_role("button", name="Roll back … version 3").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("the version before version 3").wait_for()
    assert trained.http.post(f"/v1/models/{NAME}/rollback").json()["version"] == 2

    dialog.get_by_role("button", name="Roll back").click()

    dialog.get_by_role("alert").get_by_text("Apps fetch version 2 by now").wait_for()
    assert trained.http.get(f"/v1/models/{NAME}").json()["latest_version"] == 2


WIDEST = "() => document.documentElement.scrollWidth"
PIXELS = """
(canvas) => [...canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data]
  .filter((_, at) => at % 4 === 0)
"""


@pytest.fixture(scope="module")
def versions(served: Served) -> Served:
    """A model of three classes with two trained versions."""
    served.register("sides", mlp(8, 16, 3), classes=["north", "east", "west"])
    samples = blobs(300, 8, 3)
    served.upload("sides", split="train", **{k: v[:200] for k, v in samples.items()})
    served.upload("sides", split="validation", **{k: v[200:] for k, v in samples.items()})
    served.train("sides", epochs=1, learning_rate=1e-4, seed=1, ignore_policy=True)
    served.train("sides", epochs=10, learning_rate=0.01, seed=1, ignore_policy=True)
    return served


def test_versions_are_compared_with_matrices_and_the_samples_that_changed(
    tab: Callable[..., Tab], versions: Served, axe: str
) -> None:
    found = versions.http.get("/v1/models/sides/versions/1/comparison/3").json()
    page = tab(versions, viewport=PHONE).open("/models/sides/compare?a=1&b=3")

    page.get_by_text(f"{found['better']['total']} are now right").wait_for()
    matrix = page.get_by_role("region", name="Confusion matrix of Version 3")
    shown = [
        [int(cell or 0) for cell in row.get_by_role("cell").all_inner_texts()]
        for row in matrix.get_by_role("row").all()[1:]
    ]
    assert shown == found["after"]["confusion_matrix"]
    right = page.get_by_role("list", name="Wrong before, right now")
    first = found["better"]["items"][0]
    item = right.get_by_role("listitem").first
    item.get_by_text(f"sample {first['id']}").wait_for()
    name = ["north", "east", "west"][first["after"]]
    item.locator("[data-key='version 3']").get_by_text(name).wait_for()

    page.evaluate(axe)
    assert page.evaluate(WIDEST) <= PHONE["width"]
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert page.evaluate(SERIOUS) == []


def test_versions_are_chosen_and_swapped_in_the_address(
    tab: Callable[..., Tab], versions: Served
) -> None:
    page = tab(versions).open("/models/sides")
    page.get_by_role("link", name="Compare version 2 with version").click()
    page.get_by_role("link", name="Compare", exact=True).and_(
        page.locator("[aria-current=page]")
    ).wait_for()
    page.get_by_role("combobox", name="Before").select_option("1")
    page.get_by_role("combobox", name="After").select_option("3")
    page.get_by_text("are now right").wait_for()
    assert page.url.endswith("/models/sides/compare?a=1&b=3")

    page.get_by_role("button", name="Swap").click()

    page.get_by_role("region", name="Right before, wrong now").wait_for()
    assert page.url.endswith("?a=3&b=1")


def test_two_choices_before_the_page_is_drawn_again_both_count(
    tab: Callable[..., Tab], versions: Served
) -> None:
    page = tab(versions).open("/models/sides/compare?a=2&b=1")
    page.get_by_role("combobox", name="Before").wait_for()
    page.evaluate(
        """() => [["Before", "1"], ["After", "3"]].forEach(([title, version]) => {
          const select = document.querySelector(`[data-key="${title}"] select`);
          select.value = version;
          select.dispatchEvent(new Event("change"));
        })"""
    )
    page.get_by_text("are now right").wait_for()
    assert page.url.endswith("/models/sides/compare?a=1&b=3")


def test_versions_without_validation_samples_say_so(
    tab: Callable[..., Tab], versions: Served
) -> None:
    versions.register("bare-sides", mlp(4, 3))
    versions.upload("bare-sides", split="train", **blobs(50, 4, 3))
    versions.train("bare-sides", epochs=1, ignore_policy=True)
    page = tab(versions).open("/models/bare-sides/compare?a=1&b=2")
    page.get_by_text("There are no labelled validation samples").wait_for()


def test_tensors_in_the_shape_of_pictures_are_shown_as_pictures(
    tab: Callable[..., Tab], versions: Served
) -> None:
    versions.register("tiles", image_model())
    image = np.linspace(0, 1, 64, dtype=np.float32).reshape(1, 1, 8, 8)
    versions.upload("tiles", image=image, label=np.array([1]))
    page = tab(versions).open("/models/tiles/samples")

    canvas = page.locator("canvas.picture[width='8']")
    canvas.wait_for()

    expected = np.round(image.ravel() * 255).astype(int).tolist()
    assert canvas.evaluate(PIXELS) == expected
