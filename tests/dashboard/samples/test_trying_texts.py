"""Texts in the console: a model is registered with its tokenizer, and tried as one types."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from browser import Tab
from completions import add_decoder
from decoders import bigrams, word_tokenizer
from support import Served, wait_until
from texts import classifier, tokenizer

TEXTS = ["the train is late", "a plate is broken", "the train has left", "my plate is empty"] * 4
WORDS = ["see", "you", "soon", "later"]


def test_a_model_of_texts_is_added_with_its_tokenizer_and_tried(
    tab: Callable[..., Tab], served: Served, tmp_path: Path
) -> None:
    (tmp_path / "topics.onnx").write_bytes(classifier(64, 2, positions=128))
    (tmp_path / "tokenizer.json").write_bytes(tokenizer(TEXTS))
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

    for at, text in enumerate(TEXTS[:4]):
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
