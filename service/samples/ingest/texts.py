"""Reads texts of JSON samples and of lines of a CSV, as they are stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from service.preprocess import Unreadable, for_model
from service.preprocess.text_inputs import KIND
from service.samples.ingest.require import require_tensors
from storage.errors import Problem
from storage.records.models import Model

if TYPE_CHECKING:
    from service.preprocess.text import Text

TEXT, PAIR = "text", "text_pair"


class TextReader:
    """Reads the texts of a model's samples. fields: their names, both for a model of pairs."""

    def __init__(self, kind: Text) -> None:
        self._kind = kind
        self.fields = (TEXT, PAIR) if kind.pairs else (TEXT,)

    def read(self, fields: Mapping[str, Any], at: str, problems: list[Problem]) -> bytes:
        """The bytes of a sample. at: its JSON pointer; what is wrong is added to the problems."""
        wrong = [
            Problem(f"{at}/{name}", f"{name} is missing, or no text")
            for name in self.fields
            if not isinstance(fields.get(name), str)
        ]
        problems += wrong
        if wrong:
            return b""
        data, complaint = self.joined(*(fields[name] for name in self.fields))
        problems += [Problem(f"{at}/{TEXT}", complaint)] if complaint else []
        return data

    def joined(self, *texts: str) -> tuple[bytes, str | None]:
        """The bytes of a sample, and what is wrong with them."""
        data = self._kind.joined(*texts)
        return data, self.complaint(data)

    def complaint(self, data: bytes) -> str | None:
        """What is wrong with the bytes of a sample."""
        try:
            self._kind.check(data)
        except Unreadable as error:
            return str(error)
        return None


def texts_of(model: Model) -> TextReader | None:
    """The reader of a model of texts; None for others."""
    kind = for_model(model).files
    return TextReader(cast("Text", kind)) if kind is not None and kind.kind == KIND else None


def reader_of(model: Model) -> TextReader | None:
    """As `texts_of`. Raises InvalidInput for a model of other files, which lines cannot hold."""
    texts = texts_of(model)
    if texts is None:
        require_tensors(model)
    return texts
