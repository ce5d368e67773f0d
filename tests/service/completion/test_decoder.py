"""Decoders: cached keys and values change the time that an answer takes, and nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from decoders import bigrams, decoder, word_tokenizer

from service.completion import decoder as decoder_module
from service.errors import PredictionFailed

TOKENIZER = word_tokenizer([f"w{n}" for n in range(48)])
TEXT = [3, 5, 7, 9, 11, 13]


@pytest.fixture
def cached(opened: Any) -> Any:
    return opened(TOKENIZER, decoder(50, cached=True))[0]


@pytest.fixture
def plain(opened: Any) -> Any:
    return opened(TOKENIZER, decoder(50))[0]


def close(some: Any, others: Any) -> bool:
    return np.allclose(some.logits, others.logits, atol=1e-4)


def test_a_text_is_read_alike_with_and_without_a_cache(cached: Any, plain: Any) -> None:
    assert close(cached.read(TEXT, room=1), plain.read(TEXT, room=1))


def test_rows_go_on_from_the_rows_that_they_continue(cached: Any, plain: Any) -> None:
    ways = [([0, 0, 0], [4, 6, 8]), ([2, 0], [1, 2]), ([1], [9])]
    some, others = cached.read(TEXT, room=9), plain.read(TEXT, room=9)
    for rows, tokens in ways:
        some, others = cached.read_on(some, rows, tokens), plain.read_on(others, rows, tokens)
        assert np.array_equal(some.tokens, others.tokens)
        assert close(some, others)


def test_a_text_that_begins_like_an_earlier_one_is_computed_from_there(
    cached: Any, plain: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And gives the same, whether it goes on, is shorter, or takes another way."""
    cached.keep(cached.read(TEXT, room=1))
    known: list[int] = []
    run = decoder_module.Decoder._run

    def noted(self: Any, text: Any, past: Any, so_far: int = 0) -> Any:
        known.append(so_far)
        return run(self, text, past, so_far)

    for text, from_there in (([*TEXT, 2], 6), (TEXT[:4], 3), ([*TEXT[:2], 8, 8], 2), ([9, 9], 0)):
        expected = plain.read(text, room=1)
        with monkeypatch.context() as patched:
            patched.setattr(decoder_module.Decoder, "_run", noted)
            found = cached.read(text, room=1)
            assert close(found, expected)
            cached.keep(found)
        assert known.pop() == from_there


def test_long_texts_are_read_in_blocks(cached: Any, plain: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(decoder_module, "BLOCK", 4)
    assert close(cached.read(TEXT, room=1), plain.read(TEXT, room=1))


def test_what_is_kept_is_bounded(cached: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for first in range(10):
        cached.keep(cached.read([first, 3, 4], room=1))
    assert len(cached._kept) == decoder_module.KEPT_TEXTS
    monkeypatch.setattr(decoder_module, "KEPT_BYTES", 1)
    cached.keep(cached.read([20, 3, 4], room=1))
    assert len(cached._kept) == 1


def test_a_text_keeps_its_end_where_there_is_no_room(opened: Any) -> None:
    reader, _ = opened(TOKENIZER, decoder(50), max_tokens=8)
    assert reader.read([*range(2, 12)], room=3).tokens.tolist() == [[7, 8, 9, 10, 11]]


def test_a_fixed_length_is_filled_up_and_masked(opened: Any, plain: Any) -> None:
    reader, _ = opened(
        TOKENIZER, decoder(50, length=16, mask=True), feeds={"attention_mask": "attention_mask"}
    )
    assert reader.window == 16
    assert close(reader.read(TEXT, room=1), plain.read(TEXT, room=1))


def test_positions_and_the_mask_are_fed_by_their_names(opened: Any, plain: Any) -> None:
    feeds = {"attention_mask": "attention_mask", "position_ids": "where"}
    some, _ = opened(TOKENIZER, decoder(50, cached=True, mask=True, places="where"), feeds=feeds)
    first, other = some.read(TEXT, room=1), plain.read(TEXT, room=1)
    assert close(first, other)
    assert close(some.read_on(first, [0, 0], [4, 6]), plain.read_on(other, [0, 0], [4, 6]))


def test_an_input_that_nothing_feeds_is_refused_by_name(opened: Any) -> None:
    with pytest.raises(PredictionFailed, match="attention_mask"):
        opened(TOKENIZER, decoder(50, mask=True))


def test_a_token_beyond_the_model_is_an_error_of_the_request(plain: Any) -> None:
    with pytest.raises(PredictionFailed, match="cannot compute this text"):
        plain.read([3, 5000], room=1)


def test_numbers_that_are_not_finite_are_an_error_of_the_request(opened: Any) -> None:
    broken = bigrams({3: {4: 0.5, 5: float("nan")}}, 8)
    with pytest.raises(PredictionFailed, match="not finite"):
        opened(TOKENIZER, broken)[0].read([2, 3], room=1)
