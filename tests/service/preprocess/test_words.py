"""Each word of a text is found at its first token, whichever tokenizer cuts it."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

from service.preprocess.words import token_words, word_pattern

TEXTS = [
    "Anna O'Neill-Lee saw the Öresund, didn't she? (2024: 3.5 km)",
    "  北京大学 and テスト 😀👩\u200d🔬 naïve\n\tcafe\u0301 ",
    "Анна живёт в Москве; abc123def x_y",
    "हिन्दी में भाषा, ภาษาไทย",
]


def made(name: str) -> Tokenizer:
    """One as BERT, GPT-2, or XLM-R have it, made for these texts."""
    if name == "WordPiece":
        tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        trainer = trainers.WordPieceTrainer(vocab_size=120, special_tokens=["[UNK]", "[CLS]"])
        tokenizer.train_from_iterator(TEXTS, trainer)
        tokenizer.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [CLS]", special_tokens=[("[CLS]", 1)]
        )
    elif name == "byte-level BPE":
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
        tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(vocab_size=290, initial_alphabet=alphabet)
        tokenizer.train_from_iterator(TEXTS, trainer)
    else:
        tokenizer = Tokenizer(models.Unigram())
        tokenizer.normalizer = normalizers.NFKC()
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
        trainer = trainers.UnigramTrainer(
            vocab_size=120, unk_token="<unk>", special_tokens=["<unk>"]
        )
        tokenizer.train_from_iterator(TEXTS, trainer)
    return tokenizer


@pytest.mark.parametrize("name", ["WordPiece", "byte-level BPE", "Unigram"])
@pytest.mark.parametrize("text", TEXTS)
def test_every_word_is_told_once_and_in_order(name: str, text: str) -> None:
    encoded = made(name).encode(text)
    begins, ends = token_words(text, encoded.offsets)

    words = [match.span() for match in word_pattern().finditer(text)]
    first = np.flatnonzero(ends)
    told = [*zip(begins[first].tolist(), ends[first].tolist(), strict=True)]
    assert told == sorted(told)
    assert all(one[1] <= other[0] for one, other in pairwise(told))
    # A piece may be of several words, such as two ideographs, and tells them together.
    for start, end in told:
        of = [word for word in words if start <= word[0] and word[1] <= end]
        assert (of[0][0], of[-1][1]) == (start, end)
    for token in first.tolist():
        begin, end = encoded.offsets[token]
        assert begin <= begins[token] < end
        assert all(e <= begins[token] for b, e in encoded.offsets[:token] if b < e)
    # Tokenizers drop signs, but no letters.
    untold = [text[a:b] for a, b in words if not any(s <= a and b <= e for s, e in told)]
    assert not any(map(str.isalnum, untold))


def test_marks_belong_to_the_letter_that_they_combine_with() -> None:
    found = word_pattern().findall(f"{TEXTS[1]}{TEXTS[3]}")
    assert found == [
        *("北", "京", "大", "学", "and", "テ", "ス", "ト", "😀", "👩\u200d", "🔬"),
        *("naïve", "cafe\u0301", "हिन्दी", "में", "भाषा", ",", "ภาษาไทย"),
    ]
