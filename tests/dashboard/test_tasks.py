"""Models of several labels and of embeddings in the console: metrics, predictions and labels."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import SERIOUS, Tab
from pictures import PREPROCESS, image_model, photo
from support import Served, mlp

TAGS = ["noisy", "bright"]
OF_TAGS = ["micro F1", "macro F1", "accuracy", "loss"]
PERSONS = ["ann", "bob", "cem"]
HAS = np.array([[1, 1], [0, 0], [0, 1], [1, 0]], np.float32)
"""Every combination of the two tags."""


@pytest.fixture(scope="module")
def taught(served: Served) -> Served:
    """`tagged`, photos with any of two labels; `persons-seen`, embeddings; each trained once."""
    always = {"gate": {"mode": "always"}}
    spec = {"loss": "multilabel", "classes": TAGS, "preprocess": PREPROCESS, **always}
    served.register("tagged", image_model(), **spec)
    files = [("file", (f"{at}.png", photo(80 * (at % 3), at), "image/png")) for at in range(48)]
    about = [
        {"label": HAS[at % 4].tolist(), "split": "train" if at < 36 else "validation"}
        for at in range(48)
    ]
    form = {"samples": json.dumps(about)}
    sent = served.http.post("/v1/models/tagged/samples", data=form, files=files)
    sent.raise_for_status()
    served.register("persons-seen", mlp(5, 8, 4), loss="supcon", classes=PERSONS, **always)
    person = np.arange(48) % 3
    noise = np.random.default_rng(2).normal(size=(48, 5))
    x = (person[:, None] + noise).astype(np.float32)
    served.upload("persons-seen", "train", x=x[:36], label=person[:36])
    served.upload("persons-seen", "validation", x=x[36:], label=person[36:])
    for name in ("tagged", "persons-seen"):
        served.train(name, epochs=2, batch_size=12, seed=1, ignore_policy=True)
    return served


def one_of(served: Served, model: str, label: Any) -> int:
    """The id of a sample with this label."""
    items = served.http.get(f"/v1/models/{model}/samples").json()["items"]
    return next(entry["id"] for entry in items if entry["label"] == label)


@pytest.mark.parametrize(
    ("name", "metrics", "chosen"),
    [
        ("tagged", [*OF_TAGS, "F1", "precision", "recall"], "macro_f1"),
        ("persons-seen", ["recall at 1", "loss"], "loss"),
    ],
)
def test_the_gate_offers_the_metrics_of_the_models_task(
    tab: Callable[..., Tab], taught: Served, name: str, metrics: list[str], chosen: str
) -> None:
    default = taught.http.get(f"/v1/models/{name}").json()["gate"]
    page = tab(taught).open(f"/models/{name}/settings")
    gate = page.get_by_role("region", name="Gate")
    field = gate.get_by_label("Metric")
    field.wait_for()

    assert field.locator("option").all_inner_texts() == metrics
    assert field.input_value() == default["metric"]
    field.select_option(chosen)
    held = gate.get_by_label("Hold versions back while recent inputs have drifted")
    held.check()
    flag = gate.get_by_label("Judge on the base set too")
    assert held.bounding_box()["width"] == flag.bounding_box()["width"], "as wide as any"
    gate.get_by_role("button", name="Save").click()
    page.get_by_text(f"Gate of {name} saved.").wait_for()

    changed = {**default, "metric": chosen, "hold_on_drift": True}
    assert taught.http.get(f"/v1/models/{name}").json()["gate"] == changed
    taught.http.patch(f"/v1/models/{name}", json={"gate": default}).raise_for_status()


@pytest.mark.parametrize(
    ("name", "metric", "words"),
    [("tagged", "micro_f1", "micro F1"), ("persons-seen", "recall_at_1", "recall at 1")],
)
def test_versions_and_jobs_tell_the_metric_of_the_gate(
    tab: Callable[..., Tab], taught: Served, name: str, metric: str, words: str
) -> None:
    version = taught.http.get(f"/v1/models/{name}/versions/2").json()
    share = f"{version['metrics'][metric] * 100:.1f} %"
    page = tab(taught).open(f"/models/{name}")

    second = page.get_by_role("listitem", name="Version 2")
    second.get_by_text(f"{share} validation {words}").wait_for()

    second.get_by_role("link", name=f"job {version['job_id']}").click()
    page.get_by_text(f"validation {words}", exact=True).wait_for()
    page.get_by_role("region", name=words[0].upper() + words[1:]).wait_for()
    page.goto(f"{taught.url}/dashboard/models/{name}/compare?a=1&b=2")
    table = page.get_by_role("region", name="Metrics").first
    table.get_by_role("row", name=words).get_by_text(share).first.wait_for()


def test_an_embedding_is_shown_as_its_numbers(
    tab: Callable[..., Tab], taught: Served, axe: str
) -> None:
    numbers = [1, 2, 3, 4, 5]
    asked = {"inputs": {"x": numbers}}
    answered = taught.http.post("/v1/models/persons-seen/predict", json=asked).json()
    embedding = answered["predictions"][0]["embedding"]
    page = tab(taught).open("/models/persons-seen/try")
    page.get_by_label("x 5 numbers").fill(" ".join(map(str, numbers)))
    page.get_by_role("button", name="Predict").click()

    shown = page.locator("figure[data-key=embedding] p")
    shown.wait_for()

    assert [float(each) for each in shown.inner_text().split()] == pytest.approx(embedding, 0.01)
    answer = page.get_by_role("region", name=re.compile("of version 2$"))
    assert answer.get_by_text("Click the right class").count() == 0, "there is none to click"
    page.goto(
        f"{taught.url}/dashboard/models/persons-seen/try?sample={one_of(taught, 'persons-seen', 1)}"
    )
    page.get_by_text(": bob").wait_for()
    shown.wait_for()
    assert "NaN" not in shown.inner_text()
    page.evaluate(axe)
    assert page.evaluate(SERIOUS) == []


def test_several_labels_are_told_by_their_names(tab: Callable[..., Tab], taught: Served) -> None:
    page = tab(taught).open("/models/tagged/samples")
    for label, text in ((HAS[0], "noisy, bright"), (HAS[1], "none"), (HAS[2], "bright")):
        sample = one_of(taught, "tagged", label.tolist())
        cell = page.locator(f"#sample-{sample}")
        cell.wait_for()
        told = cell.get_attribute("aria-label").removesuffix(" ·v")
        assert told == f"Sample {sample}, {text}"

    page.goto(f"{taught.url}/dashboard/models/tagged/try?sample={one_of(taught, 'tagged', [1, 1])}")

    answer = page.get_by_role("region", name=re.compile("of version 2$"))
    answer.get_by_text(": noisy, bright").wait_for()
    for name in TAGS:
        answer.get_by_role("listitem").filter(has_text=name).get_by_text(
            re.compile("%$")
        ).wait_for()
    assert answer.get_by_role("button").count() == 0
    assert answer.locator("figure[data-key=label]").count() == 0, "the names tell it"


def test_photos_are_added_under_one_of_several_labels(
    tab: Callable[..., Tab], served: Served, tmp_path: Path
) -> None:
    served.register(
        "album-of-tags", image_model(), loss="multilabel", classes=TAGS, preprocess=PREPROCESS
    )
    (tmp_path / "noisy").mkdir()
    (tmp_path / "noisy" / "one.png").write_bytes(photo(80, 11))
    (tmp_path / "two.png").write_bytes(photo(90, 12))
    page = tab(served).open("/models/album-of-tags/samples")

    page.get_by_label("Choose a folder").set_input_files(tmp_path / "noisy")
    page.get_by_role("option", name=re.compile(r"^Sample \d+, noisy")).wait_for()
    label = page.get_by_role("group", name="Add samples").get_by_label("Label")
    label.select_option("bright")
    page.get_by_label("Choose files").set_input_files(tmp_path / "two.png")
    page.get_by_role("option", name=re.compile(r"^Sample \d+, bright")).wait_for()

    kept = served.http.get("/v1/models/album-of-tags/samples").json()["items"]
    assert sorted(each["label"] for each in kept) == [[0, 1], [1, 0]]
