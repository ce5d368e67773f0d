"""Texts in the console: added, shown, found by a part, labelled, and tried."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from browser import SERIOUS, Tab
from support import Served
from texts import classifier, tokenizer

TEXTS = ["The train was late again", "נתראה ב-8!", "Verspätet: <b>Straße</b> gesperrt"]
OPTIONS = "[role=option]"


@pytest.fixture(scope="module")
def notes(served: Served) -> Served:
    files = {
        "model": ("m.onnx", classifier(64, 2)),
        "tokenizer": ("tokenizer.json", tokenizer(TEXTS)),
    }
    spec = {"name": "notes", "loss": "cross_entropy", "classes": ["late", "other"]}
    spec["preprocess"] = {"kind": "text", "max_tokens": 16}
    answer = served.http.post("/v1/models", data={"spec": json.dumps(spec)}, files=files)
    assert answer.status_code == 201, answer.text
    return served


def test_texts_are_added_shown_and_found(
    tab: Callable[..., Tab], notes: Served, tmp_path: Path, axe: str
) -> None:
    page = tab(notes).open("/models/notes/samples")
    page.get_by_text("No samples yet.").wait_for()
    (tmp_path / "one.txt").write_text(TEXTS[0], encoding="utf-8")
    (tmp_path / "two.jsonl").write_text("\n".join(json.dumps({"text": t}) for t in TEXTS[1:]))
    (tmp_path / "three.png").write_bytes(b"no text")

    page.get_by_label("Choose files").set_input_files(sorted(tmp_path.iterdir()))

    page.get_by_text("3 samples added, 1 problem.").wait_for()
    page.get_by_text("this model takes .txt, .csv, .json and .jsonl files").wait_for()
    for text in TEXTS:
        page.locator(OPTIONS).filter(has_text=text).wait_for()
    direction = "it => getComputedStyle(it).direction"
    assert [page.get_by_text(text).evaluate(direction) for text in TEXTS] == ["ltr", "rtl", "ltr"]
    page.evaluate(axe)
    assert page.evaluate(SERIOUS) == []

    page.get_by_role("searchbox", name="Text").fill("STRASSE")
    page.keyboard.press("Enter")

    page.get_by_text("1 shown").wait_for()
    assert "text=STRASSE" in page.url
    page.locator(OPTIONS).filter(has_text=TEXTS[2]).wait_for()
    page.get_by_role("button", name="Delete all").click()
    asked = page.get_by_role("dialog")
    asked.get_by_text("Delete all samples with: “STRASSE” in the text?").wait_for()
    asked.get_by_role("button", name="Keep").click()
    page.locator(OPTIONS).first.click()
    page.keyboard.press("1")
    page.get_by_role("option", name=re.compile(r"Sample \d+, late")).wait_for()
    page.get_by_role("searchbox", name="Text").fill("nobody wrote this")
    page.keyboard.press("Enter")
    page.get_by_text("No matching samples.").wait_for()


def test_a_text_is_tried_and_kept_with_its_class(tab: Callable[..., Tab], notes: Served) -> None:
    page = tab(notes).open("/models/notes/try")
    page.get_by_label("Text", exact=True).fill("The bus is late")
    page.get_by_role("button", name="Predict").click()
    answer = page.get_by_role("region", name="Prediction of version 1")
    answer.get_by_role("button", name=re.compile("late")).click()
    answer.get_by_text("Saved as a sample labelled late.").wait_for()
    path = "/v1/models/notes/samples"
    (kept,) = notes.http.get(path, params={"text": "the bus"}).json()["items"]
    assert kept["label"] == 0
