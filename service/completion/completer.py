"""Completes texts with loaded models, each with its tokenizer."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from msgspec import Struct, to_builtins

from service.completion.decoder import Decoder
from service.completion.generation import generate
from service.completion.messages import COMPLETE, NO_CACHE, TEXT, Completing, Question, Suggest
from service.completion.vocabulary import Vocabulary, open_vocabulary
from service.completion.words import suggest
from service.prediction.frames import Frame, Tensors
from service.prediction.loaded_models import LoadedModel
from storage.database.codec import convert


class _Completer(Struct, frozen=True):
    """A decoder and its vocabulary, for texts of this form. no_cache: why a cache is not used."""

    form: Completing
    decoder: Decoder
    vocabulary: Vocabulary
    no_cache: str | None


class Completers:
    """Those of the models that are loaded; dropped with them."""

    def __init__(self, *, threads: int) -> None:
        self._threads = threads
        self._opened: WeakKeyDictionary[LoadedModel, _Completer] = WeakKeyDictionary()

    def answer(self, held: LoadedModel, header: dict[str, Any], tensors: Tensors) -> Frame:
        """Answer a question about a loaded model. Raises ModelNotLoadable, PredictionFailed."""
        question = convert(header[COMPLETE], Question)
        asked, form = question.asked, question.form
        one, answer = self._opened.get(held), {}
        if one is None or one.form != form:
            one = self._opened[held] = self._open(held, form, version=header["file"]["path"])
            answer = {NO_CACHE: one.no_cache}
        text = tensors[TEXT].tobytes().decode()
        if isinstance(asked, Suggest):
            suggestions = suggest(one.decoder, one.vocabulary, text, count=asked.count)
            return Frame({**answer, "suggestions": to_builtins(suggestions)})
        return Frame({**answer, **to_builtins(generate(one.decoder, one.vocabulary, text, asked))})

    def _open(self, held: LoadedModel, form: Completing, *, version: str) -> _Completer:
        decoder, no_cache = Decoder(held.session, form), None
        if form.cached is not None:
            from service.completion.caching import with_cache  # it imports onnx

            decoder, no_cache = with_cache(decoder, form, version=version, threads=self._threads)
        vocabulary = open_vocabulary(form, size=decoder.size())
        return _Completer(form, decoder, vocabulary, no_cache)
