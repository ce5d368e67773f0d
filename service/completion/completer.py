"""Completes texts with loaded models, each with its tokenizer."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from msgspec import Struct, convert, to_builtins

from service.completion.decoder import Decoder
from service.completion.generation import generate
from service.completion.messages import COMPLETE, TEXT, Completing, Question, Suggest
from service.completion.vocabulary import Vocabulary, open_vocabulary
from service.completion.words import suggest
from service.prediction.frames import Frame, Tensors
from service.prediction.sessions import LoadedModel


class _Completer(Struct, frozen=True):
    """A decoder and its vocabulary, for texts of this form."""

    form: Completing
    decoder: Decoder
    vocabulary: Vocabulary


class Completers:
    """Those of the models that are loaded; dropped with them."""

    def __init__(self, *, threads: int) -> None:
        self._threads = threads
        self._opened: WeakKeyDictionary[LoadedModel, _Completer] = WeakKeyDictionary()

    def answer(self, held: LoadedModel, header: dict[str, Any], tensors: Tensors) -> Frame:
        """Answer a question about a loaded model. Raises ModelNotLoadable, PredictionFailed."""
        question = convert(header[COMPLETE], Question)
        one = self._completer(held, question.form, version=header["file"]["path"])
        asked = question.asked
        text = tensors[TEXT].tobytes().decode()
        if isinstance(asked, Suggest):
            suggestions = suggest(one.decoder, one.vocabulary, text, count=asked.count)
            return Frame({"suggestions": to_builtins(suggestions)})
        return Frame(to_builtins(generate(one.decoder, one.vocabulary, text, asked)))

    def _completer(self, held: LoadedModel, form: Completing, *, version: str) -> _Completer:
        known = self._opened.get(held)
        if known is None or known.form != form:
            decoder = Decoder(held.session, form)
            if form.cached is not None:
                from service.completion.caching import with_cache  # it imports onnx

                decoder = with_cache(decoder, form, version=version, threads=self._threads)
            vocabulary = open_vocabulary(form, size=decoder.size())
            known = self._opened[held] = _Completer(form, decoder, vocabulary)
        return known
