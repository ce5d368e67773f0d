"""Opened decoders and their vocabularies."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
from tokenizers import Tokenizer

from service.completion.decoder import Decoder
from service.completion.messages import Completing
from service.completion.vocabulary import Vocabulary
from service.training.engines.runtime import open_session

Opened = tuple[Decoder, Vocabulary]
Open = Callable[..., Opened]


@pytest.fixture
def opened() -> Open:
    """Opens a model with a tokenizer, as the predictor does."""

    def open_both(
        tokenizer: Tokenizer,
        model: bytes,
        *,
        max_tokens: int = 128,
        feeds: Mapping[str, str] | None = None,
    ) -> Opened:
        form = Completing(
            tokenizer="",
            ids="input_ids",
            feeds=dict(feeds or {}),
            max_tokens=max_tokens,
            special_tokens=True,
            output="logits",
        )
        decoder = Decoder(open_session(model, threads=1, arena=False), form)
        return decoder, Vocabulary(tokenizer, decoder.size())

    return open_both
