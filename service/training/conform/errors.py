"""What is wrong with an upload: problems gathered as they are found, raised together."""

from __future__ import annotations

from collections.abc import Sequence

from service.training.errors import GraphRefused
from storage.errors import Problem


def pointer(*parts: str | int) -> str:
    """RFC 6901: `/` and `~` inside a part are escaped."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)


def refusal(problems: Sequence[Problem]) -> GraphRefused:
    """All problems as one error, whose sentence says how many there are."""
    if len(problems) == 1:
        return GraphRefused(problems[0].detail, problems=problems)
    first = problems[0].detail
    return GraphRefused(f"{len(problems)} things are wrong, the first: {first}", problems=problems)


def refuse(place: str, detail: str) -> GraphRefused:
    """An error with one problem."""
    return refusal([Problem(place, detail)])
