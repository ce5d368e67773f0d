"""Reads labels that are spans of a text: characters with a type, or a class for each word."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from service.samples.columns import Column, Unfitted, Value
from service.samples.ingest.json_value import read_json
from service.training.tasks.spans import Scheme, Span, scheme_of, spans_of
from storage.database.codec import encode
from storage.records.signatures import TargetSpec

SPANS = "spans"
FIELDS = ("start", "end", "label")
OF_PREDICTIONS = {"score"}
"""What a predicted span has besides, so that it can be sent back."""
MAX_LABEL_BYTES = 2**19
"""Of the JSON of a text's spans."""
GIVEN_WORD = re.compile(r"\S+")
WANTED = (
    'a list of {"start": 0, "end": 5, "label": TYPE} in characters of the text, or of one class for'
    " each word"
)


def with_label(
    target: TargetSpec, sample: Mapping[str, Any]
) -> tuple[Mapping[str, Any], str, str | None]:
    """What JSON gives of a sample, its label as `label`; its name there; and what is wrong.

    Spans of a text may be called `spans` instead.
    """
    if SPANS not in sample:
        return sample, SpanReader.name, None
    if not target.span_types:
        return sample, SPANS, "the model's labels are no spans; send label"
    if sample.get(SpanReader.name) is not None:
        return sample, SPANS, "label says the same; send one of them"
    return {**sample, SpanReader.name: sample[SPANS]}, SPANS, None


class SpanReader(Column):
    """Labels of texts. They are stored as spans in order, whichever way they came."""

    name = "label"
    schema: ClassVar = {"description": WANTED}

    def __init__(self, target: TargetSpec) -> None:
        assert target.classes is not None
        self._scheme = scheme_of(target.classes)
        self._at = {name: index for index, name in enumerate(target.classes)}

    def parse(self, value: Any) -> Value:
        """What it is once it is fitted to its text. Classes of words may be one text as well."""
        are_words = isinstance(value, str) and not value.startswith("[")
        if isinstance(value, str):
            try:
                value = value.split() if are_words else read_json(value)
            except ValueError as error:
                return None, f"label: {error}; send {WANTED}"
        if value is None:
            return None, None
        if not isinstance(value, list):
            return None, f"label: send {WANTED}"
        if are_words or (value and all(isinstance(entry, str) for entry in value)):
            return self._words(value)
        spans: list[Span] = []
        for place, described in enumerate(value):
            span = self._span(described)
            if isinstance(span, str):
                return None, f"label: span {place} {span}"
            spans.append(span)
        return _Spans(tuple(spans)), None

    def _words(self, names: list[str]) -> Value:
        for place, name in enumerate(names):
            if name not in self._at:
                known = ", ".join(map(repr, [*self._at][:20]))
                shown = repr(name[:100])
                return None, f"label: word {place} is {shown}, which is none of {known}"
        return _Words(tuple(self._at[name] for name in names), self._scheme), None

    def _span(self, value: Any) -> Span | str:
        """A span, or what is wrong with it."""
        if not isinstance(value, dict) or set(value) - OF_PREDICTIONS != {*FIELDS}:
            return f"is no object of {', '.join(FIELDS)} alone; send {WANTED}"
        start, end, label = (value[name] for name in FIELDS)
        if type(start) is not int or type(end) is not int:
            return "has a start or an end that is no integer; count characters from 0"
        if not 0 <= start < end:
            return f"goes from {start} to {end}; start is 0 or more, and less than end"
        if label not in self._scheme.types:
            known = ", ".join(map(repr, self._scheme.types[:20]))
            return f"has the label {str(label)[:100]!r}, which is none of {known}"
        return Span(start, end, label)


class _Spans(Unfitted, frozen=True):
    spans: tuple[Span, ...]

    def fitted(self, record: bytes) -> Value:
        length = len(record.decode(errors="replace"))
        for place, span in enumerate(self.spans):
            if span.end > length:
                detail = f"ends at {span.end}, and the text has {length} characters"
                return None, f"label: span {place} {detail}"
        ordered = sorted(enumerate(self.spans), key=lambda entry: entry[1].start)
        for (place, one), (other_place, other) in pairwise(ordered):
            if other.start < one.end:
                told = f"spans {place} and {other_place}"
                return None, f"label: {told} overlap; a word has one class"
        return _stored([span for _, span in ordered])


class _Words(Unfitted, frozen=True):
    """classes: of each word that white space separates."""

    classes: tuple[int, ...]
    scheme: Scheme

    def fitted(self, record: bytes) -> Value:
        words = [match.span() for match in GIVEN_WORD.finditer(record.decode(errors="replace"))]
        if len(words) != len(self.classes):
            detail = f"{len(self.classes)} classes, and the text has {len(words)} words"
            return None, f"label: {detail}, which white space separates"
        spans = spans_of(np.array(self.classes), self.scheme)
        types = self.scheme.types
        return _stored(
            [Span(words[span.first][0], words[span.end - 1][1], types[span.type]) for span in spans]
        )


def _stored(spans: Sequence[Span]) -> Value:
    label = encode(spans)
    if len(label) > MAX_LABEL_BYTES:
        detail = f"its spans take {len(label)} bytes as JSON, and the most is {MAX_LABEL_BYTES}"
        return None, f"label: {detail}; send the text in parts"
    return label, None
