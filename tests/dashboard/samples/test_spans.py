"""Spans of texts in the console: highlighted, labelled by selecting, predicted."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from browser import SERIOUS, Tab
from support import Served
from texts import labeller, tokenizer

TEXT = "\U0001f600 Anna Lee saw \u00d6lo & <b>Bob</b>"
PER, LOC = {"start": 2, "end": 10, "label": "PER"}, {"start": 15, "end": 18, "label": "LOC"}
SELECT = """([id, start, end]) => {
  const shown = document.getElementById(id);
  const walker = document.createTreeWalker(shown, NodeFilter.SHOW_TEXT);
  const range = document.createRange();
  let before = 0;
  for (let node = walker.nextNode(); node !== null; node = walker.nextNode()) {
    const after = before + node.length;
    if (before <= start && start < after) range.setStart(node, start - before);
    if (before < end && end <= after) range.setEnd(node, end - before);
    before = after;
  }
  document.getSelection().removeAllRanges();
  document.getSelection().addRange(range);
}"""


@pytest.fixture(scope="module")
def names(served: Served) -> Served:
    files = {
        "model": ("m.onnx", labeller(64, 5)),
        "tokenizer": ("tokenizer.json", tokenizer(["Anna Lee saw Bob"])),
    }
    classes = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
    spec = {"name": "names", "loss": "token_classification", "classes": classes}
    spec["preprocess"] = {"kind": "text", "max_tokens": 32}
    answer = served.http.post("/v1/models", data={"spec": json.dumps(spec)}, files=files)
    assert answer.status_code == 201, answer.text
    return served


def sent(served: Served, text: str, label: Any) -> int:
    answer = served.http.post(
        "/v1/models/names/samples", json={"text": text, "label": label, "split": "train"}
    )
    return int(answer.json()["ids"][0])


def label_of(served: Served, sample: int) -> Any:
    return served.http.get(f"/v1/models/names/samples/{sample}").json()["label"]


def test_spans_are_highlighted_selected_labelled_and_taken_away(
    tab: Callable[..., Tab], names: Served, axe: str
) -> None:
    sample = sent(names, TEXT, [PER])
    page = tab(names).open("/models/names/samples")
    row = page.locator(f"#sample-{sample}")
    row.locator("mark", has_text="Anna Lee").wait_for()
    assert row.locator(".label").inner_text() == "PER"

    row.click()
    editor = page.get_by_role("group", name=f"Spans of sample {sample}")
    assert editor.get_by_label(f"Text of sample {sample}").text_content() == TEXT
    # The emoji is two units of JavaScript's texts, and one character.
    page.evaluate(SELECT, ["spans-text", 15, 20])
    editor.get_by_role("button", name="LOC").click()
    row.locator("mark", has_text="\u00d6lo").wait_for()
    assert label_of(names, sample) == [PER, LOC]
    assert row.locator(".label").inner_text() == "PER, LOC"
    page.evaluate(axe)
    assert page.evaluate(SERIOUS) == []

    editor.locator("mark", has_text="Anna Lee").click()
    row.locator("mark", has_text="Anna Lee").wait_for(state="detached")
    assert label_of(names, sample) == [LOC]
    page.evaluate(SELECT, ["spans-text", 3, 18])
    editor.get_by_label(f"Text of sample {sample}").press("1")
    row.locator("mark", has_text="Anna Lee saw \u00d6l").wait_for()
    assert label_of(names, sample) == [{"start": 2, "end": 17, "label": "PER"}]
    editor.get_by_role("button", name="No spans").click()
    row.get_by_text("no spans").wait_for()
    assert label_of(names, sample) == []
    page.get_by_role("button", name="Undo").click()
    row.locator("mark").wait_for()
    assert label_of(names, sample) == [{"start": 2, "end": 17, "label": "PER"}]


def test_spans_that_are_given_before_others_are_stored_are_kept(
    tab: Callable[..., Tab], names: Served
) -> None:
    sample = sent(names, f"again {TEXT}", None)
    page = tab(names).open("/models/names/samples")
    page.locator(f"#sample-{sample}").click()
    editor = page.get_by_role("group", name=f"Spans of sample {sample}")
    text = editor.get_by_label(f"Text of sample {sample}")
    text.wait_for()
    held: list[Any] = []
    page.route(
        f"**/samples/{sample}",
        lambda route: held.append(route),  # noqa: PLW0108 - Playwright marks it
        times=1,
    )
    for key, (start, end), place in (("1", (9, 17), "Anna Lee"), ("2", (22, 25), "\u00d6lo")):
        page.evaluate(SELECT, ["spans-text", start, end])
        text.press(key)
        editor.locator("mark", has_text=place).wait_for()
    held[0].continue_()

    page.locator(f"#sample-{sample} .label", has_text=re.compile("^PER, LOC$")).wait_for()
    assert len(label_of(names, sample)) == 2


def test_predicted_spans_are_highlighted_and_become_a_label(
    tab: Callable[..., Tab], names: Served
) -> None:
    path = "/v1/models/names"
    text = "Bob saw Anna Lee today"
    said = names.http.post(f"{path}/predict", json={"text": text}).json()["predictions"][0]
    spans = [{name: span[name] for name in ("start", "end", "label")} for span in said["spans"]]
    assert spans
    other = sent(names, f"so {text[:7]}", [])
    page = tab(names).open("/models/names/try")
    page.get_by_label("Text", exact=True).fill(text)
    page.get_by_role("button", name="Predict").click()
    answer = page.get_by_role("region", name="Prediction of version 1")
    marks = answer.locator("figure mark")
    marks.first.wait_for()
    assert marks.all_text_contents() == [text[span["start"] : span["end"]] for span in spans]
    answer.get_by_role("button", name="These spans are right").click()
    page.get_by_text("Saved as a sample with these spans.").wait_for()
    assert answer.get_by_role("button", name="These spans are right").is_disabled()
    (kept,) = names.http.get(f"{path}/samples", params={"text": text}).json()["items"]
    assert kept["label"] == spans

    page.get_by_label("Split").select_option("")
    page.get_by_role("link", name=f"Try sample {other}, no spans").click()
    answer = page.get_by_role("region", name="Prediction of version 1")
    answer.get_by_text("no spans").first.wait_for()
    answer.get_by_role("button", name="These spans are right").click()
    page.get_by_text(f"Sample {other} labelled with these spans.").wait_for()
    found = names.http.post(f"{path}/predict", json={"text": f"so {text[:7]}"}).json()
    wanted = found["predictions"][0]["spans"]
    assert [each["start"] for each in label_of(names, other)] == [each["start"] for each in wanted]
