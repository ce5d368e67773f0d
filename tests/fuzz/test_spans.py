"""Whatever is sent as spans of a text fits it once it is stored, or is refused with a reason."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from hostile import (
    RANDOM,
    Doors,
    as_body,
    changed,
    json_value,
    odd_text,
    one_of,
    refused_or_done,
    text,
)
from hypothesis import given, settings

from service.samples.ingest.intake import UploadOptions
from service.samples.ingest.json_upload import store_json
from service.samples.updates import change_sample, shown_label

UNASKED: Any = None
"""Checks masks, which these labels are none of."""
FUZZ = settings.get_profile("fuzz")
SPANS = [{"start": 0, "end": 2, "label": "PER"}, {"start": 3, "end": 5, "label": "PER"}]
spans = one_of(
    lambda r: changed(r, SPANS),
    lambda r: [{"start": r.randint(-1, 9), "end": r.randint(0, 9), "label": "PER"}],
    lambda r: ["O", "B-PER", "I-PER"][: r.randint(0, 3)],
    json_value,
)


@FUZZ
@given(r=RANDOM)
def test_spans(doors: Doors, r: Random) -> None:
    store, model, made = doors.store, doors.spans, []
    options = UploadOptions(allow_duplicates=True)
    for sample in (
        {"text": one_of(text, odd_text)(r), "label": spans(r)},
        {"text": "on my \U0001f600 way"},
    ):
        body = as_body(sample)
        refused_or_done(lambda: made.append(store_json(store, model, body, options)))  # noqa: B023
    for result in made:
        assert result.ids is not None
        number, late = result.ids[0], {"label": json.loads(as_body(spans(r)))}
        assert_spans_fit(doors, number)
        refused_or_done(
            lambda: change_sample(store, model, number, late, masks=UNASKED)  # noqa: B023
        )
        assert_spans_fit(doors, number)


def assert_spans_fit(doors: Doors, number: int) -> None:
    samples, model = doors.store.samples, doors.spans
    found = shown_label(model, samples.get(model.id, number).label) or []
    places = [0, *(place for each in found for place in (each["start"], each["end"]))]
    assert places == sorted(places)
    assert places[-1] <= len(samples.content(model.id, number).decode())
