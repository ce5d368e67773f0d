"""Texts in the console: a model added with its tokenizer; shown, found, labelled and tried."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from browser import SERIOUS, Tab
from completions import add_decoder
from decoders import bigrams, word_tokenizer
from support import Served, wait_until
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


TOPICS = [
    "the train is late",
    "a plate is broken",
    "the train has left",
    "my plate is empty",
] * 4
WORDS = ["see", "you", "soon", "later"]


def test_a_model_of_texts_is_added_with_its_tokenizer_and_tried(
    tab: Callable[..., Tab], served: Served, tmp_path: Path
) -> None:
    (tmp_path / "topics.onnx").write_bytes(classifier(64, 2, positions=128))
    (tmp_path / "tokenizer.json").write_bytes(tokenizer(TOPICS))
    one = tab(served)
    page = one.open("/add")
    page.get_by_label("Choose a file").set_input_files(tmp_path / "topics.onnx")
    page.get_by_text("for texts instead of the ids").first.wait_for()

    page.get_by_label("Sample format").select_option("text")
    page.get_by_text("a model of texts needs its tokenizer.json").wait_for()
    page.get_by_label("Tokenizer, for texts").set_input_files(tmp_path / "tokenizer.json")
    page.get_by_label("Classes, comma").fill("travel, kitchen")
    page.keyboard.press("Tab")
    page.get_by_role("button", name="Register the model").click()
    page.get_by_role("heading", name="topics", exact=True).wait_for()
    assert served.http.get("/v1/models/topics").json()["preprocess"][0]["kind"] == "text"

    for at, text in enumerate(TOPICS[:4]):
        sent = {"text": text, "label": ["travel", "kitchen"][at % 2]}
        assert served.http.post("/v1/models/topics/samples", json=sent).status_code == 201
    page.get_by_role("listbox", name="Samples").get_by_text("a plate is broken").wait_for()

    page.get_by_role("link", name="Try it").click()
    page.get_by_role("textbox", name="Text").fill("the train is empty")
    page.get_by_role("button", name="Predict").click()
    answer = page.get_by_role("region", name="Prediction of version 1")
    answer.get_by_role("button", name="travel is right").click()
    wait_until(
        lambda: served.http.get("/v1/models/topics").json()["samples"]["train"] == 5, "the text"
    )
    one.forgive("422")


def test_next_words_are_suggested_as_one_types(tab: Callable[..., Tab], served: Served) -> None:
    """By bigrams: see → you, you → soon (three in four) or later."""
    see, you, soon, later = range(2, 6)
    shares = {see: {you: 1.0}, you: {soon: 0.75, later: 0.25}, soon: {see: 1.0}, later: {see: 1.0}}
    add_decoder(served, "phrases", bigrams(shares, 6), word_tokenizer(WORDS))
    page = tab(served).open("/models/phrases/try")
    field = page.get_by_role("textbox", name="Text")
    suggestions = page.get_by_role("list", name="Suggestions")

    field.press_sequentially("see ")
    suggestions.get_by_role("button", name="you").click()
    suggestions.get_by_role("button", name="soon").wait_for()
    assert field.input_value() == "see you "
    field.press("Alt+2")
    wait_until(lambda: field.input_value() == "see you later ", "the word")

    page.get_by_role("button", name="Write on").click()
    wait_until(lambda: len(field.input_value()) > len("see you later "), "more")
