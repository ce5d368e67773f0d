"""Trying the promoted version on stored samples, in the console."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from browser import SERIOUS, Tab
from pictures import PREPROCESS, image_model, photo
from series import series_model
from stored import publish, start_job
from support import Served, blobs, mlp

from storage.store import Store

CLASSES = ["north", "east", "west"]


@pytest.fixture(scope="module")
def compass(served: Served) -> Served:
    """A model of three classes, trained once; fourteen of its samples are for validation."""
    served.register("compass", mlp(4, 16, 3), classes=CLASSES)
    samples = blobs(100, 4, 3)
    served.upload("compass", split="train", **{k: v[:86] for k, v in samples.items()})
    served.upload("compass", split="validation", **{k: v[86:] for k, v in samples.items()})
    served.train("compass", epochs=3, learning_rate=0.01, seed=1, ignore_policy=True)
    return served


def sample_of(
    served: Served, model: str, *, version: int | None = None, **query: str
) -> dict[str, Any]:
    found = served.http.get(f"/v1/models/{model}/samples", params=query).json()["items"][0]
    path = f"/v1/models/{model}/samples/{found['id']}/content"
    content = served.http.get(path)
    asked = {
        "content": content.content,
        "headers": {"Content-Type": content.headers["content-type"]},
    }
    path = f"/v1/models/{model}/predict"
    params = {} if version is None else {"version": version}
    answer = served.http.post(path, params=params, **asked).json()
    (predicted,) = answer["predictions"]
    return {**found, "predicted": predicted}


def test_a_stored_sample_is_picked_tried_and_labelled(
    tab: Callable[..., Tab], compass: Served, axe: str
) -> None:
    chosen = sample_of(compass, "compass", split="validation")
    label, probabilities = CLASSES[chosen["label"]], chosen["predicted"]["probabilities"]
    page = tab(compass).open("/models/compass/try")
    stored = page.get_by_role("list", name="Stored samples")
    stored.get_by_role("link").nth(11).wait_for()
    page.get_by_role("button", name="Show more").click()
    stored.get_by_role("link").nth(13).wait_for()

    stored.get_by_role("link", name=f"Try sample {chosen['id']}, {label}").click()

    answer = page.get_by_role("region", name=re.compile("of version 2$"))
    answer.get_by_text(f"Sample {chosen['id']}: {label}").wait_for()
    assert page.url.endswith(f"/models/compass/try?sample={chosen['id']}")
    for name, probability in zip(CLASSES, probabilities, strict=True):
        row = answer.get_by_role("listitem").filter(has_text=name)
        row.get_by_text(f"{probability * 100:.1f} %").wait_for()
    page.evaluate(axe)
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(SERIOUS) == []
    other = next(name for name in CLASSES if name != label)
    answer.get_by_role("button", name=f"{other} is right").click()
    answer.get_by_text(f"Sample {chosen['id']}: {other}").wait_for()
    path = f"/v1/models/compass/samples/{chosen['id']}"
    assert compass.http.get(path).json()["label"] == CLASSES.index(other)


def test_a_sample_of_the_list_is_tried_with_each_version_that_apps_get(
    tab: Callable[..., Tab], compass: Served
) -> None:
    chosen = sample_of(compass, "compass", split="train")
    page = tab(compass).open("/models/compass/samples?split=train")
    page.locator(f"#sample-{chosen['id']}").click()
    page.get_by_role("link", name=f"Predict sample {chosen['id']}").click()
    page.get_by_role("region", name=re.compile("of version 2$")).wait_for()

    compass.http.put("/v1/models/compass/aliases/latest", json={"version": 1}).raise_for_status()

    answer = page.get_by_role("region", name=re.compile("of version 1$"))
    predicted = sample_of(compass, "compass", version=1, split="train")["predicted"]
    likeliest = max(predicted["probabilities"])
    answer.get_by_text(f"{likeliest * 100:.1f} %").wait_for()
    page.get_by_label("x 4 numbers").fill("1 2 3 4")
    page.get_by_role("button", name="Predict").click()
    page.get_by_role("region", name="Prediction").get_by_text("Click the right class").wait_for()
    assert page.url.endswith("/models/compass/try")


def test_while_latest_cannot_be_loaded_the_version_before_is_tried(
    tab: Callable[..., Tab], serve: Callable[..., Served]
) -> None:
    before = serve()
    before.register("m", mlp(4, 16, 3))
    before.upload("m", **blobs(1, 4, 3))
    before.stop()
    store = Store.open(before.data_dir)
    publish(store, start_job(store, store.models.get("m").id), b"not a model at all")
    store.close()
    again = serve()
    chosen = sample_of(again, "m")

    one = tab(again)
    answer = one.open("/models/m/try?sample=1").get_by_role(
        "region", name="Prediction of version 1"
    )

    answer.get_by_text(f"{chosen['predicted']['probability'] * 100:.1f} %").wait_for()
    one.forgive("503")


def test_a_stored_picture_is_tried(tab: Callable[..., Tab], served: Served) -> None:
    served.register("lamps", image_model(), classes=["dark", "bright"], preprocess=PREPROCESS)
    sent = {"content": photo(200, 1), "headers": {"Content-Type": "image/png"}}
    served.http.post("/v1/models/lamps/samples", params={"label": 1}, **sent).raise_for_status()
    chosen = sample_of(served, "lamps")
    one = tab(served)
    page = one.open(f"/models/lamps/try?sample={chosen['id']}")

    answer = page.get_by_role("region", name=re.compile("of version 1$"))

    answer.locator("canvas[width='24']").wait_for()
    answer.get_by_text(f"{chosen['predicted']['probability'] * 100:.1f} %").wait_for()
    page.goto(f"{served.url}/dashboard/models/lamps/try?sample=999999")
    page.get_by_text("Sample not found.").wait_for()
    one.forgive("404")


def test_a_score_is_shown_beside_the_threshold(
    tab: Callable[..., Tab], served: Served, axe: str
) -> None:
    served.register("pulse", series_model((4, 1), (4, 1)), loss="reconstruction")
    x = np.random.default_rng(0).standard_normal((40, 4, 1)).astype(np.float32)
    for split, part in (("train", x[:20]), ("validation", x[20:])):
        served.upload("pulse", split=split, x=part).raise_for_status()
    page = tab(served).open("/models/pulse/try")

    def tried(version: int) -> Any:
        page.get_by_label("x").fill("9, -9, 9, -9")
        page.get_by_role("button", name="Predict").click()
        return page.get_by_role("region", name=re.compile(f"of version {version}$"))

    tried(1).get_by_text("no threshold before a job has made a version").wait_for()
    served.train("pulse", max_steps=1, ignore_policy=True)
    answer = tried(2)
    answer.get_by_text("anomaly", exact=True).wait_for()
    answer.get_by_text(re.compile(r"^score \d+.*, threshold \d")).wait_for()
    page.evaluate(axe)
    assert page.evaluate(SERIOUS) == []
