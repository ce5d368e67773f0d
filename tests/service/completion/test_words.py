"""Suggested words: their probabilities are those of the model, summed over pieces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from decoders import bigrams, byte_tokenizer, decoder, saved, word_tokenizer
from tokenizers import Tokenizer, models, pre_tokenizers
from tokenizers import decoders as token_decoders

from service.completion.messages import Completing
from service.completion.vocabulary import open_vocabulary
from service.completion.words import suggest
from service.errors import PredictionFailed

WORDS = ("see", "you", "later", "soon", ".", "your")
END, SEE, YOU, LATER, SOON, DOT, YOUR = 0, 2, 3, 4, 5, 6, 7


@pytest.fixture
def told(opened: Any) -> Any:
    """The suggestions for a text, by word."""

    def ask(tokenizer: Tokenizer, model: bytes, text: str, count: int = 3) -> dict[str, Any]:
        found = suggest(*opened(tokenizer, model), text, count=count)
        return {each.text: pytest.approx(each.probability, abs=1e-6) for each in found}

    return ask


def pieces(*names: str) -> Tokenizer:
    """Word pieces, of which those with ## continue a word."""
    vocabulary = {name: token for token, name in enumerate(("<|end|>", "[UNK]", *names))}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.decoder = token_decoders.WordPiece()
    tokenizer.add_special_tokens(["<|end|>"])
    return tokenizer


def test_words_follow_with_the_probability_of_the_model(told: Any) -> None:
    model = bigrams({YOU: {LATER: 0.6, SOON: 0.3, DOT: 0.1}}, 8)
    assert told(word_tokenizer(WORDS), model, "see you ") == {"later": 0.6, "soon": 0.3}


def test_a_word_that_may_go_on_is_both_completed_and_followed(told: Any, opened: Any) -> None:
    """`you` or `your` after `see`: three to one; then `later`."""
    model = bigrams({SEE: {YOU: 0.3, YOUR: 0.1, DOT: 0.6}, YOU: {LATER: 0.8, DOT: 0.2}}, 8)
    tokenizer = word_tokenizer(WORDS)
    assert told(tokenizer, model, "see you") == {"later": 0.75 * 0.8, "your": 0.25}
    by_name = {e.text: e.replaces for e in suggest(*opened(tokenizer, model), "see you", count=3)}
    assert by_name == {"later": 0, "your": 3}


def test_a_word_that_is_begun_is_completed_whole(told: Any) -> None:
    model = bigrams({SEE: {YOU: 0.3, YOUR: 0.1, LATER: 0.6}}, 8)
    assert told(word_tokenizer(WORDS), model, "see yo") == {"you": 0.75, "your": 0.25}


def test_pieces_are_put_together_until_the_word_ends(told: Any) -> None:
    """`late` alone, `later` by two pieces, and `lately` by two others."""
    tokenizer = pieces("see", "late", "##r", "##ly", ".", "now")
    model = bigrams(
        {
            2: {3: 0.5, 7: 0.3, 6: 0.2},
            3: {4: 0.6, 5: 0.3, 6: 0.1},
            4: {6: 1.0},
            5: {4: 0.1, 6: 0.9},
        },
        8,
    )
    assert told(tokenizer, model, "see ", count=4) == {
        "now": 0.3,
        "later": 0.5 * 0.6,
        "lately": 0.5 * 0.3 * 0.9,
        "late": 0.5 * 0.1,
    }
    assert told(tokenizer, model, "see late", count=2) == {"later": 0.6, "lately": 0.27}


def test_a_word_by_other_pieces_than_the_tokenizer_would_take_counts_as_well(told: Any) -> None:
    tokenizer = pieces("see", "la", "late", "##te", ".")
    model = bigrams({2: {3: 0.5, 4: 0.25, 6: 0.25}, 3: {5: 1.0}, 4: {6: 1.0}, 5: {6: 1.0}}, 7)
    assert told(tokenizer, model, "see l") == {"late": 1.0}
    assert told(tokenizer, model, "see ") == {"late": 0.75}


def test_what_ends_a_text_and_what_is_unknown_are_no_words(told: Any) -> None:
    model = bigrams({SEE: {END: 0.5, 1: 0.3, DOT: 0.1, YOU: 0.1}}, 8)
    assert told(word_tokenizer(WORDS), model, "see ") == {"you": 0.1}


def test_a_mark_alone_is_no_word(told: Any) -> None:
    model = bigrams({2: {3: 0.4, 4: 0.6}}, 5)
    assert told(word_tokenizer(("see", "you", "-")), model, "see ") == {"you": 0.4}


def test_an_empty_text_begins_as_documents_do(told: Any) -> None:
    model = bigrams({END: {SEE: 0.7, YOU: 0.2, DOT: 0.1}}, 8)
    assert told(word_tokenizer(WORDS), model, "") == {"see": 0.7, "you": 0.2}
    assert told(word_tokenizer(WORDS), model, "s") == {"see": 1.0}


def test_an_empty_text_is_refused_if_no_token_begins_texts(opened: Any) -> None:
    tokenizer = Tokenizer(models.WordLevel({"a": 0, "b": 1, "[UNK]": 2}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    with pytest.raises(PredictionFailed, match="send a text of a word"):
        suggest(*opened(tokenizer, bigrams({}, 3)), "", count=3)


@pytest.mark.parametrize("text", ["", "the tok", "the token ", "the token", "a (b", "x\ny", "naï"])
def test_byte_pairs_give_whole_words_that_begin_as_the_text_ends(opened: Any, text: str) -> None:
    texts = [path.read_text("utf-8") for path in Path("docs").glob("*.md")]
    tokenizer = byte_tokenizer(texts, size=600)
    model = decoder(600, width=64, cached=True)
    found = suggest(*opened(tokenizer, model), text, count=5)
    assert sum(each.probability for each in found) <= 1
    assert [e.probability for e in found] == sorted((e.probability for e in found), reverse=True)
    for each in found:
        assert each.text.strip(" '-") == each.text
        assert each.text.startswith(text[len(text) - each.replaces :])


def test_a_model_with_cached_keys_suggests_what_the_same_without_does(told: Any) -> None:
    texts = [path.read_text("utf-8") for path in Path("docs").glob("*.md")]
    tokenizer = byte_tokenizer(texts, size=600)
    some, others = (
        told(tokenizer, decoder(600, width=64, cached=cached), "the samples are", count=5)
        for cached in (False, True)
    )
    assert some
    assert list(some) == list(others)


def test_a_first_word_is_followed_where_no_token_begins_texts(told: Any) -> None:
    """What completes it cannot be told."""
    tokenizer = Tokenizer(models.WordLevel({"a": 0, "b": 1, "[UNK]": 2}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    assert told(tokenizer, bigrams({0: {1: 1.0}}, 3), "a") == {"b": 1.0}


@pytest.mark.parametrize("kind", ["Metaspace", "ByteLevel", "WordPiece"])
def test_a_tokenizer_whose_file_names_no_decoder_is_decoded(tmp_path: Path, kind: str) -> None:
    """By the marks that it puts on pieces."""
    marks = {"Metaspace": "\u2581", "ByteLevel": "\u0120"}
    names = ["a", f"{marks.get(kind, '')}see", f"{'##' if kind == 'WordPiece' else ''}r", "[UNK]"]
    ids = {name: token for token, name in enumerate(names)}
    if kind == "WordPiece":
        tokenizer = Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))
        tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    else:
        tokenizer = Tokenizer(models.BPE(ids, [], unk_token="[UNK]"))
        tokenizer.pre_tokenizer = getattr(pre_tokenizers, kind)()
    form = Completing(
        tokenizer=str(saved(tokenizer, tmp_path)),
        ids="input_ids",
        feeds={},
        max_tokens=8,
        special_tokens=True,
        output="logits",
    )
    assert open_vocabulary(form, size=4).texts[1:3] == [" see", "r"]
