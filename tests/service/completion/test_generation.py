"""Generated text: how it is drawn, where it ends, and that it does not depend on the turns."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from decoders import END, bigrams, byte_tokenizer, decoder, word_tokenizer
from tokenizers import Tokenizer, decoders, models

from service.completion import generation
from service.completion.generation import draw, generate
from service.completion.messages import Generate, Generated, Sampling

WORDS = ("see", "you", "later", "soon", ".")
SEE, YOU, LATER, SOON, DOT = range(2, 7)
CHAIN = bigrams(
    {SEE: {YOU: 1.0}, YOU: {LATER: 0.6, SOON: 0.4}, LATER: {SEE: 1.0}, SOON: {0: 1.0}}, 7
)
LIKELIEST = Sampling(temperature=0)


def whole(both: Any, text: str, asked: Generate) -> tuple[Generated, list[Generated]]:
    """The end of a text that is generated in turns, and all of them."""
    turns: list[Generated] = []
    while not turns or turns[-1].finish_reason is None:
        known = turns[-1].tokens if turns else ()
        next_turn = Generate(asked.max_tokens, asked.sampling, asked.stop, known)
        turns.append(generate(*both, text, next_turn))
    return turns[-1], turns


@pytest.fixture
def chain(opened: Any) -> Any:
    return opened(word_tokenizer(WORDS), CHAIN)


def test_it_ends_at_the_length(chain: Any) -> None:
    made, _ = whole(chain, "see", Generate(4, LIKELIEST))
    assert made == Generated((YOU, LATER, SEE, YOU), " you later see you", 1, "length")


def test_it_ends_where_the_model_ends_texts(chain: Any) -> None:
    made, _ = whole(chain, "see you soon", Generate(9, LIKELIEST))
    assert (made.text, made.finish_reason, made.prompt_tokens) == ("", "stop", 3)


def test_it_ends_before_a_stop(chain: Any) -> None:
    made, _ = whole(chain, "see", Generate(9, LIKELIEST, stop=("later s", "soon")))
    assert (made.text, made.finish_reason) == (" you ", "stop")


def test_what_may_become_a_stop_is_held_back(chain: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generation, "TURN_S", 0.0)
    _, turns = whole(chain, "see", Generate(5, LIKELIEST, stop=("later soon",)))
    assert [turn.text for turn in turns] == [
        " you",
        " you ",
        " you later see",
        " you later see you",
        " you later see you later",
    ]


def test_the_same_seed_gives_the_same_text_in_however_many_turns(
    opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = opened(word_tokenizer([f"w{n}" for n in range(48)]), decoder(50, cached=True))
    for seed in range(3):
        asked = Generate(24, Sampling(temperature=1.0, top_k=20, top_p=0.95, seed=seed))
        at_once, turns = whole(both, "w3 w4", asked)
        with monkeypatch.context() as patched:
            patched.setattr(generation, "TURN_S", 0.0)
            piecewise, more_turns = whole(both, "w3 w4", asked)
        assert at_once == piecewise
        assert len(turns) < len(more_turns)


def test_characters_of_several_pieces_are_told_once_they_are_whole(
    opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generation, "TURN_S", 0.0)
    tokenizer = byte_tokenizer(["plain words"], size=270)
    first, second, third = tokenizer.encode("\u20ac").ids
    a = tokenizer.encode("a").ids[0]
    chain = {a: {first: 1.0}, first: {second: 1.0}, second: {third: 1.0}, third: {a: 1.0}}
    both = opened(tokenizer, bigrams(chain, tokenizer.get_vocab_size()))
    _, turns = whole(both, "a", Generate(4, LIKELIEST))
    assert [turn.text for turn in turns] == ["", "", "\u20ac", "\u20aca"]


def test_characters_of_bytes_do_not_change_what_was_told_before(
    opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With bytes for what is not in the vocabulary, as in Llama's tokenizer."""
    monkeypatch.setattr(generation, "TURN_S", 0.0)
    names = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256))]
    ids = {name: token for token, name in enumerate(names)}
    tokenizer = Tokenizer(models.BPE(ids, [], unk_token="<unk>", byte_fallback=True))
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    loop = tokenizer.encode("\u8a9e\u20ac\u8a9e").ids[2:]
    chain = {token: {after: 1.0} for token, after in pairwise(loop)}
    both = opened(tokenizer, bigrams(chain, len(names)))
    _, turns = whole(both, "\u65e5\u672c\u8a9e", Generate(7, LIKELIEST))
    told = ["", "", "\u20ac", "\u20ac", "\u20ac", "\u20ac\u8a9e", "\u20ac\u8a9e\ufffd"]
    assert [turn.text for turn in turns] == told


def test_what_the_tokenizer_does_not_know_is_never_drawn(opened: Any) -> None:
    both = opened(word_tokenizer(WORDS), bigrams({SEE: {1: 0.99, YOU: 0.01}, YOU: {0: 1.0}}, 9))
    made, _ = whole(both, "see", Generate(9, Sampling(temperature=1.0)))
    assert made.text == " you"


def test_ids_that_the_tokenizer_leaves_out_are_never_drawn_and_those_above_are(opened: Any) -> None:
    ids = {"see": 0, "[UNK]": 1, "you": 4}
    tokenizer = Tokenizer(models.WordLevel(ids, unk_token="[UNK]"))
    both = opened(tokenizer, bigrams({0: {2: 0.7, 4: 0.3}, 4: {4: 1.0}}, 6))
    made, _ = whole(both, "see", Generate(2, LIKELIEST))
    assert made.text == " you you"


def test_draws_follow_the_shares() -> None:
    logits = np.log(np.array([0.5, 0.3, 0.15, 0.05]))
    drawn = Counter(draw(logits, Sampling(seed=3), place=place) for place in range(4000))
    assert [drawn[token] / 4000 for token in range(4)] == pytest.approx(np.exp(logits), abs=0.03)


@pytest.mark.parametrize(
    ("sampling", "tokens"),
    [
        (Sampling(temperature=0), {0}),
        (Sampling(top_k=1), {0}),
        (Sampling(top_k=2), {0, 1}),
        (Sampling(top_k=9), {0, 1, 2, 3}),
        (Sampling(top_p=0.5), {0}),
        (Sampling(top_p=0.6), {0, 1}),
        (Sampling(top_k=3, top_p=0.9), {0, 1, 2}),
        (Sampling(temperature=0.05), {0}),
        (Sampling(temperature=1e-300), {0}),
    ],
)
def test_only_what_was_asked_for_is_drawn(sampling: Sampling, tokens: set[int]) -> None:
    logits = np.log(np.array([0.5, 0.3, 0.15, 0.05]))
    assert {draw(logits, sampling, place=place) for place in range(400)} == tokens


def test_the_end_is_no_text() -> None:
    assert word_tokenizer(WORDS).decode([SEE, 0]) == "see"
    assert word_tokenizer(WORDS).id_to_token(0) == END
