"""Spans as classes of words, and their figures, as seqeval gives them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from service.preprocess.words import token_words
from service.training.evaluation.evaluate import by_sample
from service.training.evaluation.significance import paired_bootstrap
from service.training.tasks import TASKS
from service.training.tasks.by_token import TextTokens
from service.training.tasks.spans import Span, WordSpan, scheme_of, spans_of, word_classes
from storage.records.signatures import IGNORED, TargetSpec

TASK = TASKS["token_classification"]
BIO, IO = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC"), ("O", "I-PER", "I-LOC")
# Figures of seqeval 1.2.2 for these classes of words, one text a sequence: f1_score,
# precision_score, recall_score, accuracy_score, and the f1-scores of classification_report.
SEQEVAL = {
    BIO: (
        "23424 3 2400 0002 0430301 040 4000 1204 4400 400 1 000200",
        "23204 3 2300 1003 0430320 010 4200 1204 4410 400 1 300021",
        (0.6222222222222222, 0.56, 0.7, 0.6956521739130435),
        {"PER": 0.4, "LOC": 0.8},
    ),
    IO: (
        "010 0000200 001000002 000 00 201110101 20212 000001 00100020 212 000220 11",
        "020 1020000 001000002 000 00 201100121 20212 000201 00100020 212 001210 11",
        (0.7111111111111111, 0.64, 0.8, 0.8571428571428571),
        {"PER": 0.7272727272727272, "LOC": 0.6956521739130435},
    ),
}


def sequences(text: str) -> list[list[int]]:
    return [[int(digit) for digit in each] for each in text.split()]


def batch(true: list[list[int]], guessed: list[list[int]], classes: int) -> tuple[Any, Any]:
    """Outputs and targets, each word two tokens, of which the second does not count, and pads."""
    width = 2 * max(map(len, true)) + 1
    target = np.full((len(true), width), IGNORED)
    output = np.random.default_rng(0).standard_normal((len(true), width, classes))
    for row, (wanted, given) in enumerate(zip(true, guessed, strict=True)):
        target[row, : 2 * len(wanted) : 2] = wanted
        output[row, 2 * np.arange(len(given)), given] = 9
    return output.astype(np.float32), target


def target_of(classes: tuple[str, ...]) -> TargetSpec:
    return TASK.target_spec((7, len(classes)), classes)


@pytest.mark.parametrize("classes", [BIO, IO])
def test_the_figures_are_those_of_seqeval(classes: tuple[str, ...]) -> None:
    true, guessed, (f1, precision, recall, accuracy), by_type = SEQEVAL[classes]
    output, target = batch(sequences(true), sequences(guessed), len(classes))
    metrics = TASK.pass_metrics(target_of(classes))
    for part in (slice(0, 5), slice(5, None)):
        metrics.update(output[part], target[part])
    found = metrics.result()

    assert found["span_f1"] == pytest.approx(f1)
    assert found["span_precision"] == pytest.approx(precision)
    assert found["span_recall"] == pytest.approx(recall)
    assert found["token_accuracy"] == pytest.approx(accuracy)
    assert found["f1"] == [None, *(pytest.approx(by_type[name[2:]]) for name in classes[1:])]
    assert found["spans"] == 20


@pytest.mark.parametrize("classes", [BIO, IO])
def test_the_gate_s_figures_of_texts_of_any_length_give_those_of_all(
    classes: tuple[str, ...],
) -> None:
    true, guessed, (f1, _, _, accuracy), _ = SEQEVAL[classes]
    output, target = batch(sequences(true), sequences(guessed), len(classes))
    weights = TASK.pass_metrics(target_of(classes)).weights(target)
    ids = np.arange(len(target))
    for name, expected in (("span_f1", f1), ("token_accuracy", accuracy)):
        metric = TASK.metric(name, target_of(classes))
        scores = by_sample(ids, weights, metric.of_samples(output, target))
        assert metric.of_mean(scores) == pytest.approx(expected)
        worse = by_sample(ids, weights, metric.of_samples(output[:, ::-1], target))
        interval = paired_bootstrap(scores, worse, metric.figure, tick=lambda: None)
        assert interval.difference == pytest.approx(expected - metric.of_mean(worse))
        assert 0 < interval.low < interval.difference


def test_doubt_is_the_mean_entropy_of_words() -> None:
    even, sure = np.zeros(3), np.array([0, 80, 0])
    output = np.array([[even, sure, even], [sure, even, even]], np.float32)
    target = np.array([[0, 0, IGNORED], [0, IGNORED, IGNORED]])
    assert TASK.doubt(output, target) == pytest.approx([np.log(3) / 2, 0])


def test_texts_without_spans_have_figures() -> None:
    metrics = TASK.pass_metrics(target_of(BIO))
    assert metrics.result()["span_f1"] is None
    output, target = batch([[0, 0]], [[0, 0]], 5)
    metrics.update(output, target)
    found = metrics.result()
    assert (found["span_f1"], found["token_accuracy"], found["spans"]) == (0.0, 1.0, 0)
    assert found["span_precision"] is found["span_recall"] is None
    assert found["f1"] == [None] * 5


def test_classes_without_prefixes_are_types_and_those_of_bio_begin_spans() -> None:
    plain = scheme_of(("PER", "O", "B-52"))
    assert plain.types == ("PER", "B-52")
    assert spans_of(np.array([0, 0, 2, 1, 2]), plain) == [
        WordSpan(0, 2, 0), WordSpan(2, 3, 1), WordSpan(4, 5, 1)
    ]  # fmt: skip
    bio = scheme_of(BIO)
    assert bio.types == ("PER", "LOC")
    assert spans_of(np.array([2, 2, 1, 4, 3]), bio) == [
        WordSpan(0, 2, 0), WordSpan(2, 3, 0), WordSpan(3, 4, 1), WordSpan(4, 5, 1)
    ]  # fmt: skip
    assert spans_of(np.array([], np.int64), bio) == []
    begins, ends = [0, 3, 6, 9], [2, 5, 8, 11]
    spans = [Span(0, 4, "LOC"), Span(4, 8, "LOC")]
    assert word_classes(spans, begins, ends, bio) == [3, 4, 3, 0]
    inside_only = scheme_of(("I-PER", "O"))
    assert word_classes([Span(0, 5, "PER")], begins, ends, inside_only) == [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("text", "pieces", "words"),
    [
        ("Bob's at N.Y.", ["Bo", "b", "'", "s", " at", " N", ".", "Y", "."], "Bob ' s at N . Y ."),
        ("\u4e2d\u56fdBob", ["\u4e2d\u56fd", "Bob"], "\u4e2d\u56fd Bob"),
        ("a \U0001f600b", ["a", " ", "\U0001f600", "b"], "a \U0001f600 b"),
        ("un do", ["un do"], "un\u00a0do"),
    ],
)
def test_the_first_token_of_a_word_tells_where_it_is(
    text: str, pieces: list[str], words: str
) -> None:
    ends = np.cumsum([len(piece) for piece in pieces]).tolist()
    offsets = [(end - len(piece), end) for piece, end in zip(pieces, ends, strict=True)]
    begins, until = token_words(text, [(0, 0), *offsets, (0, 0)])
    assert (until[0], until[-1]) == (0, 0)
    found = [text[start:end] for start, end in zip(begins, until, strict=True) if end]
    assert found == [each.replace("\u00a0", " ") for each in words.split(" ")]


def test_only_first_tokens_of_words_have_a_label() -> None:
    words = np.zeros((2, 2, 5), np.int64)
    words[:, 0, 1], words[:, 0, 3], words[:, 1, 0] = (0, 3), (4, 7), (0, 2)
    labels = np.array([b'[{"start":4,"end":7,"label":"LOC"}]', b"[]"], object)
    tokens = TextTokens(
        ids=np.ones((2, 5), np.int64),
        counts=np.array([5, 2]),
        known=np.zeros(2, np.int64),
        vocabulary=9,
        special=(),
        mask_id=None,
        draw=np.random.default_rng,
        labels=labels,
        words=words,
        target=target_of(BIO),
    )
    ids, target = TASK.labelled(tokens)  # type: ignore[attr-defined]
    assert (ids == 1).all()
    no = IGNORED
    assert target.tolist() == [[no, 0, no, 3, no], [0, no, no, no, no]]
