"""Numbers by name in the console: labelled in parts, shown by name, and predicted so."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from browser import SERIOUS, Tab
from support import Served, mlp, wait_until

NAMES = ["temperature", "humidity"]
URL = "/v1/models/greenhouse-page"


def test_numbers_are_set_by_name_taken_back_and_predicted(
    tab: Callable[..., Tab], served: Served, axe: str
) -> None:
    served.register("greenhouse-page", mlp(4, 2), loss="mse", classes=NAMES)
    served.upload("greenhouse-page", x=np.arange(8, dtype=np.float32).reshape(2, 4))
    first = served.http.get(f"{URL}/samples").json()["items"][0]["id"]
    page = tab(served).open("/models/greenhouse-page/samples")

    def label() -> object:
        return served.http.get(f"{URL}/samples/{first}").json()["label"]

    option = page.get_by_role("option", name=f"Sample {first}, no label")
    option.click()
    form = page.get_by_role("form", name="Numbers of the label")
    form.get_by_label("humidity").fill("40.5")
    form.get_by_role("button", name="Set").click()
    page.get_by_role("option", name="temperature ?, humidity 40.5").wait_for()
    assert label() == {"temperature": None, "humidity": 40.5}
    form.get_by_label("temperature").fill("-3")
    form.get_by_label("temperature").press("Enter")
    page.get_by_role("option", name="temperature -3, humidity 40.5").wait_for()
    page.get_by_role("button", name="Undo").click()
    wait_until(lambda: label() == {"temperature": None, "humidity": 40.5}, "the undo")

    page.evaluate(axe)
    assert page.evaluate(SERIOUS) == []
    page.get_by_role("link", name=f"Predict sample {first}").click()
    predicted = page.locator("[data-key=predicted]")
    predicted.wait_for()
    assert predicted.locator("dt").all_inner_texts() == NAMES
