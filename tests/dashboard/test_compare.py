"""Two versions beside each other in the console, at an address of its own."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from browser import SERIOUS, Tab
from pictures import image_model
from support import Served, blobs, mlp

PHONE = {"width": 390, "height": 844}
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
