"""Suggests the field that a mistyped one was meant to be."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any, get_args

from pydantic import BaseModel

MOST_CHARACTERS = 100
"""No field has so long a name; comparing takes time in proportion to the square of the length."""


def meant(body: Any, place: Iterable[Any]) -> str:
    """`; did you mean learning_rate?`, or an empty text. body: the type of the whole body."""
    *above, wrong = place
    if len(str(wrong)) > MOST_CHARACTERS:
        return ""
    known = _names(body, above)
    near = difflib.get_close_matches(str(wrong), known, n=1) or [
        name for name in known if _initials(name) == wrong
    ]
    return f"; did you mean {near[0]}?" if near else ""


def _names(body: Any, above: Iterable[Any]) -> list[str]:
    """The fields of the object at a place."""
    kind = _model(body)
    for part in above:
        fields = (
            {each.alias or name: each for name, each in kind.model_fields.items()} if kind else {}
        )
        if part in fields:
            kind = _model(fields[part].annotation)
    return [field.alias or name for name, field in kind.model_fields.items()] if kind else []


def _model(annotation: Any) -> type[BaseModel] | None:
    """The first model that an annotation names, as in `list[Body] | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(_model, get_args(annotation))), None)


def _initials(name: str) -> str:
    return "".join(word[0] for word in name.split("_"))
