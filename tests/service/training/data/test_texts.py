"""Texts in training: tokenized once, windows of long ones, batches of similar length."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from texts import tokenizer

from service.preprocess.kind import Unreadable
from service.preprocess.text import HEADER, Text
from service.training.data.sampler import Sampler
from service.training.data.texts import LabelledTexts, encode_all
from service.training.data.warnings import training_warnings
from service.training.tasks import TASKS
from storage.blobs.row_cache import RowCache
from storage.database.codec import dump
from storage.readonly.sample_index import SampleIndex
from storage.records.signatures import IGNORED, Signature, TargetSpec, TensorSpec

SENTENCE = "the cat sat on a mat and a dog ran in the park while birds sang of home"
WORDS = SENTENCE.split()
TEXTS = [" ".join(WORDS[: 1 + n % len(WORDS)]) + f" {n}" for n in range(40)]
SPECS = tuple(TensorSpec(name, "int64", (24,)) for name in ("input_ids", "attention_mask"))
SIGNATURE = Signature(SPECS, TargetSpec("labels", "int64", (0,)))


@pytest.fixture
def kind(tmp_path: Path) -> Text:
    return kind_of(tmp_path)


def kind_of(folder: Path, **more: Any) -> Text:
    path = folder / "tokenizer.json"
    path.write_bytes(tokenizer(TEXTS))
    facts = {"tokenizer": "a" * 64, "vocabulary": 64, "pad_id": 0, "padding": "batch"}
    given = {"kind": "text", "input": "input_ids", **facts, **more}
    return Text.parse_among(given, {spec.name: spec for spec in SPECS}).at(str(path))


def stored(folder: Path, texts: list[bytes]) -> SampleIndex:
    """The texts as samples with the ids 1, 2, …"""
    (folder / "1.pack").write_bytes(b"".join(texts))
    lengths = np.array([len(text) for text in texts], np.int64)
    return SampleIndex(
        ids=np.arange(1, len(texts) + 1),
        packs=np.zeros(len(texts), np.int32),
        offsets=np.cumsum(lengths) - lengths,
        lengths=lengths,
        labels=np.empty((len(texts), 0), np.int64),
        pack_paths=(folder / "1.pack",),
    )


def opened(
    folder: Path, kind: Text, texts: list[str] = TEXTS, cache: RowCache | None = None
) -> LabelledTexts:
    index = stored(folder, [text.encode() for text in texts])
    outcome, counts = encode_all(index, kind, cache, threads=1, tick=lambda: None)
    assert not outcome.unreadable
    return LabelledTexts(index, SIGNATURE, kind, cache, counts=counts, task=TASKS["causal_lm"])


def test_texts_that_are_cut_off_are_told(tmp_path: Path, kind: Text) -> None:
    assert opened(tmp_path, kind, ["the cat"] * 40).warnings == ()
    data = opened(tmp_path, dataclasses.replace(kind, max_tokens=12))
    (told,) = training_warnings(data, SIGNATURE)
    assert told.startswith("training texts that are cut off after 12 tokens, or just fit: 18 of 40")


def test_a_batch_is_as_long_as_its_longest_text(tmp_path: Path, kind: Text) -> None:
    data = opened(tmp_path, kind)
    order = Sampler(np.arange(40), lengths=data.lengths, batch_size=8).epoch(0, seed=1)

    assert sorted(order) == list(range(40))
    widths = []
    for at, (inputs, target) in enumerate(data.batches(order, batch_size=8)):
        ids, mask = inputs
        chosen = order[at * 8 : at * 8 + 8]
        assert ids.shape == mask.shape == target.shape == (8, data.lengths[chosen].max())
        assert (mask.sum(axis=1) == data.lengths[chosen]).all()
        assert (ids[mask == 0] == kind.pad_id).all()
        assert (target[:, :-1][mask[:, 1:] == 1] == ids[:, 1:][mask[:, 1:] == 1]).all()
        assert (target[:, :-1][mask[:, 1:] == 0] == IGNORED).all()
        assert (target[:, -1] == IGNORED).all()
        widths.append(ids.shape[1])
    assert len(set(widths)) > 2
    assert widths != sorted(widths)
    assert sum(widths) * 8 < 1.3 * data.lengths.sum()


def test_the_order_follows_from_seed_and_epoch(tmp_path: Path, kind: Text) -> None:
    lengths = opened(tmp_path, kind).lengths

    def epoch(number: int, seed: int) -> str:
        order = Sampler(np.arange(38), lengths=lengths, batch_size=4).epoch(number, seed=seed)
        return hashlib.sha256(order.tobytes()).hexdigest()

    assert epoch(0, 1) == epoch(0, 1)
    assert len({epoch(0, 1), epoch(1, 1), epoch(0, 2)}) == 3


def test_a_long_text_is_windows_whose_tokens_are_predicted_once(tmp_path: Path) -> None:
    long = " ".join(WORDS * 4)
    kind = kind_of(tmp_path, stride=16, max_windows=8)
    (ids, *_), *_ = kind.encoder.encode([(long, None)])
    data = opened(tmp_path, kind, ["a cat", long, "a dog"])

    windows = len(data) - 2
    assert windows == 1 + -(-(len(ids) - 24) // 16)
    assert data.ids.tolist() == [1, *[2] * windows, 3]
    assert data.sample_count() == 3
    predicted = []
    for at in range(1, 1 + windows):
        inputs, target = next(data.batches(np.array([at]), batch_size=1))
        start = (at - 1) * 16
        assert inputs[0][0].tolist() == list(ids[start : start + 24])
        places = np.flatnonzero(target[0] != IGNORED)
        assert target[0][places].tolist() == [ids[start + place + 1] for place in places]
        predicted += (start + places + 1).tolist()
    assert predicted == list(range(1, len(ids)))


def test_without_a_stride_a_text_is_truncated_on_the_side_that_is_said(tmp_path: Path) -> None:
    long = " ".join(WORDS * 4)
    (ids, *_), *_ = kind_of(tmp_path, stride=24, max_windows=99).encoder.encode([(long, None)])
    for side, expected in (("right", ids[:24]), ("left", ids[-24:])):
        folder = tmp_path / side
        folder.mkdir()
        data = opened(folder, kind_of(folder, truncation=side), [long])
        assert data.inputs(np.array([0]))[0][0].tolist() == list(expected)


def test_cached_ids_give_the_same_batches_and_are_not_made_again(
    tmp_path: Path, kind: Text
) -> None:
    plain = opened(tmp_path, kind)
    folder = tmp_path / "cache"
    options = {"key": kind.row_key, "row_bytes": kind.row_bytes, "max_bytes": 30 * kind.row_bytes}
    index = stored(tmp_path, [each.encode() for each in TEXTS])
    with RowCache.open(folder, **options) as cache:
        outcome, _ = encode_all(index, kind, cache, threads=1, tick=lambda: None)
        assert (outcome.decoded, outcome.kept) == (40, 30)
    with RowCache.open(folder, **options) as cache:
        outcome, counts = encode_all(index, kind, cache, threads=1, tick=lambda: None)
        assert outcome.decoded == 10
        cached = LabelledTexts(
            index, SIGNATURE, kind, cache, counts=counts, task=TASKS["causal_lm"]
        )
        both = [each.batches(np.arange(40)[::-1], batch_size=7) for each in (plain, cached)]
        for one, other in zip(*both, strict=True):
            for a, b in zip((*one[0], one[1]), (*other[0], other[1]), strict=True):
                np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("is_cached", [False, True])
def test_spans_are_labels_of_first_tokens_and_those_cut_off_are_none(
    tmp_path: Path, is_cached: bool
) -> None:
    task = TASKS["token_classification"]
    signature = Signature(SPECS, task.target_spec((24, 3), ("O", "B-NOUN", "I-NOUN")))
    kind = kind_of(tmp_path).at(str(tmp_path / "tokenizer.json"), has_spans=True)
    texts = ["the cat sat", " ".join(WORDS * 2)]
    labels = [[(4, 7)], [(at.start(), at.end()) for at in re.finditer("cat|dog ran", texts[1])]]
    stored_labels = [
        dump([{"start": start, "end": end, "label": "NOUN"} for start, end in spans]).encode()
        for spans in labels
    ]
    index = replace(
        stored(tmp_path, [text.encode() for text in texts]),
        labels=np.array(stored_labels, object),
    )
    options = {"key": kind.row_key, "row_bytes": kind.row_bytes, "max_bytes": 9 * kind.row_bytes}
    with RowCache.open(tmp_path / "cache", **options) as cache:
        of_job = cache if is_cached else None
        _, counts = encode_all(index, kind, of_job, threads=1, tick=lambda: None)
        data = LabelledTexts(index, signature, kind, of_job, counts=counts, task=task)
        ((inputs, target),) = data.batches(np.arange(2), batch_size=2)
    told = 0
    for row, (text, spans) in enumerate(zip(texts, labels, strict=True)):
        made = kind.encoder.tokenizer.encode(text)
        assert inputs[0][row, : len(made.ids)].tolist() == made.ids
        expected = np.full(24, IGNORED)
        for word in re.finditer(r"\S+", text):
            own = [
                at for at, (b, e) in enumerate(made.offsets) if b < word.end() and e > word.start()
            ]
            if own:
                told += 1
                of = [start for start, end in spans if start < word.end() and end > word.start()]
                expected[own[0]] = 0 if not of else 1 if of[0] == word.start() else 2
        assert target[row].tolist() == expected[: target.shape[1]].tolist()
    assert told < sum(len(text.split()) for text in texts)


def test_a_text_without_tokens_is_unreadable_and_the_others_stay(
    tmp_path: Path, kind: Text
) -> None:
    index = stored(tmp_path, [b"a cat", b"", b"a dog"])
    outcome, counts = encode_all(index, kind, None, threads=1, tick=lambda: None)
    assert list(outcome.unreadable) == [1]
    assert counts[[0, 2]].all()


def test_what_is_no_text_is_named_with_the_byte(kind: Text, tmp_path: Path) -> None:
    assert kind.check("a c\u00e4t".encode()) == "text/plain"
    pairs = kind_of(tmp_path, pairs=True)
    pairs.check(pairs.joined("a cat", "a dog"))
    for bad, reason in (
        (b"a c\xe4t", "byte 3 is not UTF-8 (0xe4)"),
        (b" \n", "it is empty"),
        (b"a" * (2**20 + 1), "at most 1048576 bytes"),
        (pairs.joined("a", "b"), "one text"),
    ):
        with pytest.raises(Unreadable, match=reason.replace("(", r"\(").replace(")", r"\)")):
            kind.check(bad)
    for bad in (b"one alone", pairs.joined("a", " "), b"a\x1fb\x1fc"):
        with pytest.raises(Unreadable):
            pairs.check(bad)


def test_a_pair_tells_which_tokens_are_of_the_second(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_bytes(tokenizer(TEXTS, pairs=True))
    specs = {
        n: TensorSpec(n, "int64", (24,)) for n in ("input_ids", "attention_mask", "token_type_ids")
    }
    facts = {"tokenizer": "a" * 64, "vocabulary": 64, "pad_id": 0, "padding": "batch"}
    given = {"kind": "text", "input": "input_ids", "pairs": True, **facts}
    kind = Text.parse_among(given, specs).at(str(path))
    made = kind.tensors([kind.joined("a cat", "a dog sat"), kind.joined("the mat", "home")])

    expected = kind.encoder.tokenizer.encode("a cat", "a dog sat")
    count = len(expected.ids)
    assert made["input_ids"][0, :count].tolist() == expected.ids
    assert made["token_type_ids"][0, :count].tolist() == expected.type_ids
    assert made["attention_mask"].sum(axis=1).tolist() == [
        count, len(kind.encoder.tokenizer.encode("the mat", "home").ids)
    ]  # fmt: skip
    assert HEADER == 2
