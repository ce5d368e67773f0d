"""Query parameters and fields of bodies that are derived from the columns of samples."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypeVar

from fastapi import Query
from pydantic import Field

from service.samples.columns import ASKED, Asked
from storage.records.samples import SAMPLE_COLUMNS

Function = TypeVar("Function", bound=Callable[..., Any])
Declared = Mapping[str, tuple[Any, Any]]
"""Name → (type, default)."""


def _query(asked: Asked, description: str, default: Any = None) -> tuple[Any, Any]:
    kind = asked.kind if default is not None else asked.kind | None
    return Annotated[kind, Query(description=description, **asked.bounds)], default


def _of_uploads() -> Declared:
    queries = {}
    for name, asked in ASKED.items():
        queries[name] = _query(
            asked, f"{asked.of_many}, for those that name none.", SAMPLE_COLUMNS[name]
        )
        told = f"Of CSV: the column of the {name}s."
        queries[f"{name}_column"] = (
            Annotated[str | None, Query(max_length=4096, description=told)],
            None,
        )
    return queries


OF_UPLOADS = _of_uploads()
"""For samples that name none, and where a CSV has them."""
OF_FILTERS: Declared = {
    name: _query(asked, asked.of_one) for name, asked in ASKED.items() if asked.filtered
}
IN_PATCH: Declared = {
    name: (asked.kind | None, Field(None, **asked.bounds)) for name, asked in ASKED.items()
}


def with_queries(queries: Declared, *, before: str | None = None) -> Callable[[Function], Function]:
    """Give a function that takes `**` further query parameters.

    before: the parameter that they stand before, by default behind all.
    """

    def extend(function: Function) -> Function:
        signature = inspect.signature(function)
        own = [each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]
        at = [parameter.name for parameter in own].index(before) if before else len(own)
        own[at:at] = [
            inspect.Parameter(
                name, inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=kind, default=default
            )
            for name, (kind, default) in queries.items()
        ]
        function.__signature__ = signature.replace(parameters=own)  # type: ignore[attr-defined]
        return function

    return extend
