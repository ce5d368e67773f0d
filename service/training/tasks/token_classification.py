"""Spans of texts, such as names: a class for each word, told by its first token.

Source: Devlin et al. (2019), BERT, 5.3: the first token of a word carries its label and the loss;
other tokens of it, special ones and pads have none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from msgspec.structs import replace

from service.training.data.counting import counts as counts_of
from service.training.engine import Array
from service.training.errors import refuse
from service.training.tasks.by_class import in_columns, micro_f1
from service.training.tasks.by_token import TextTokens, TokenTask, token_counts, token_losses
from service.training.tasks.cross_entropy import entropy, softmax
from service.training.tasks.spans import OUTSIDE, Scheme, Span, scheme_of, spans_of, word_classes
from service.training.tasks.task import Metric, PassMetrics, PerSample
from storage.arrays import NDArray
from storage.database.codec import decode
from storage.records.signatures import IGNORED, TargetSpec


def read_spans(stored: bytes) -> list[Span]:
    """Those of a label."""
    return decode(stored, list[Span])


def span_counts(output: Array, target: Array, scheme: Scheme) -> NDArray[np.int64]:
    """(batch, 3, types): how often a span of each type is rightly predicted, true, and predicted.

    output: (batch, tokens, classes). target: (batch, tokens). Right is a span of the same words
    and type.
    """
    counted = np.zeros((len(output), 3, len(scheme.types)), np.int64)
    for row, (logits, wanted) in enumerate(zip(output, target, strict=True)):
        there = counts_of(wanted)
        true = set(spans_of(wanted[there], scheme))
        guessed = set(spans_of(logits[there].argmax(axis=1), scheme))
        for place, spans in enumerate((true & guessed, true, guessed)):
            for span in spans:
                counted[row, place, span.type] += 1
    return counted


def right_tokens(output: Array, target: Array) -> PerSample:
    """Share of a sample's words whose class is right."""
    counted, right = counts_of(target), output.argmax(axis=2) == target
    shares: PerSample = (right & counted).sum(axis=1) / np.maximum(counted.sum(axis=1), 1)
    return shares


def _unbound(output: Array, target: Array) -> PerSample:
    """What spans are depends on the classes of the model: see `metric`."""
    raise NotImplementedError


class SpanMetrics(PassMetrics):
    """span_f1, span_precision, span_recall: of whole spans, all types together, as conlleval and
    seqeval have them. token_accuracy: of words. f1: of spans by class, of its type; None for O, and
    for types that are neither true nor predicted.
    """

    def __init__(self, classes: tuple[str, ...]) -> None:
        self._scheme = scheme_of(classes)
        self._counts = np.zeros((3, len(self._scheme.types)), np.int64)
        self._right = self._words = 0.0

    def weights(self, target: Array) -> PerSample:
        return token_counts(target)

    def update(self, output: Array, target: Array) -> None:
        words = self.weights(target)
        self._right += float(right_tokens(output, target) @ words)
        self._words += float(words.sum())
        self._counts += span_counts(output, target, self._scheme).sum(axis=0)

    def result(self) -> dict[str, Any]:
        right, true, guessed = self._counts
        counts = zip(right.tolist(), (true + guessed).tolist(), strict=True)
        by_type = [2 * hits / both if both else None for hits, both in counts]
        words = self._words
        return {
            "span_f1": micro_f1(self._counts.astype(np.float64).ravel()) if words else None,
            "span_precision": float(right.sum() / guessed.sum()) if guessed.any() else None,
            "span_recall": float(right.sum() / true.sum()) if true.any() else None,
            "token_accuracy": self._right / words if words else None,
            "f1": [None if kind < 0 else by_type[kind] for kind in self._scheme.type_of],
            "spans": int(true.sum()),
        }


class TokenClassification(TokenTask):
    """Logits (batch, tokens, classes); a label is the spans of a text."""

    name = "token_classification"
    title = "token classification: spans of a text, such as names"
    takes_class_names = takes_spans = True
    has_doubt = True
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("span_f1", _unbound, True, micro_f1),
        Metric("token_accuracy", right_tokens, True),
        Metric("loss", token_losses),
    )
    lists_by_class = ("f1",)
    last_operators = (
        ("Softmax", "the probabilities of classes"),
        ("LogSoftmax", "the logarithms of probabilities of classes"),
    )

    def metric(
        self, name: str, target: TargetSpec | None = None, place: int | None = None
    ) -> Metric:
        inherited = super().metric(name, place=place)
        if inherited.of_samples is not _unbound:
            return inherited
        assert target is not None
        assert target.classes is not None
        scheme = scheme_of(target.classes)

        def of_samples(output: Array, wanted: Array) -> PerSample:
            """For each word, since samples weigh as many words as they have."""
            counted = span_counts(output, wanted, scheme)
            words = np.maximum(token_counts(wanted), 1)[:, None]
            return in_columns(*(counted[:, place] / words for place in range(3)))

        return replace(inherited, of_samples=of_samples)

    def labelled(self, tokens: TextTokens) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        assert tokens.words is not None
        assert tokens.target.classes is not None
        scheme = scheme_of(tokens.target.classes)
        target = np.full_like(tokens.ids, IGNORED)
        begins, ends = tokens.words
        for row, stored in enumerate(tokens.labels):
            first = np.flatnonzero(ends[row])
            places = begins[row, first].tolist(), ends[row, first].tolist()
            target[row, first] = word_classes(read_spans(stored), *places, scheme)
        return tokens.ids, target

    def target_spec(self, output: Sequence[int], classes: tuple[str, ...] | None) -> TargetSpec:
        self.check_row(output, "classes")
        if classes is None or len(classes) != output[1] or len(set(classes)) != len(classes):
            raise refuse(
                "/spec/classes",
                f"the output has {output[1]} logits for each token; name {output[1]} different "
                "classes, such as O, B-PER and I-PER, or O, PER and LOC",
            )
        if OUTSIDE not in classes:
            detail = f"no class is {OUTSIDE!r}, that of words outside of all spans; name it so"
            raise refuse("/spec/classes", detail)
        return TargetSpec(
            "labels", "int64", (0,), classes=classes, span_types=scheme_of(classes).types
        )

    def pass_metrics(self, target: TargetSpec) -> PassMetrics:
        assert target.classes is not None
        return SpanMetrics(target.classes)

    def doubt(self, output: Array, target: Array) -> PerSample:
        """Entropy in nats, the mean over the words of a text."""
        counted, doubts = counts_of(target), entropy(np.moveaxis(output, 2, 1))
        means: PerSample = (doubts * counted).sum(axis=1) / np.maximum(counted.sum(axis=1), 1)
        return means


def predicted_spans(
    logits: Array, words: NDArray[np.int64], classes: tuple[str, ...]
) -> list[dict[str, Any]]:
    """The spans of one text in characters, each with the mean probability of its words' classes.

    logits: (tokens, classes). words: (2, tokens), see service/preprocess/words.py. Source of the
    score: aggregation_strategy="first" of transformers' TokenClassificationPipeline.
    """
    scheme, first = scheme_of(classes), np.flatnonzero(words[1])
    chances = softmax(logits[first])
    scores = chances.max(axis=1) if len(first) else np.empty(0)
    begins, ends = words[:, first].tolist()
    return [
        {
            "start": begins[span.first],
            "end": ends[span.end - 1],
            "label": scheme.types[span.type],
            "score": float(scores[span.first : span.end].mean()),
        }
        for span in spans_of(chances.argmax(axis=1), scheme)
    ]
