"""What is left out of texts before they are stored: each of its characters becomes `#`.

So texts keep their length, and spans their places. Regular expressions are bounded: the daemon
cannot interrupt one, and each is tried at every character of what an app sends.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

from service.preprocess.checks import WrongDescription

MARK = "#"
NUMBERS, MAILS, PATTERNS = "numbers", "mails", "patterns"
USUAL = {
    NUMBERS: re.compile(r"\d+"),
    # From a name's first character alone, or a long one would be read from each of its own.
    MAILS: re.compile(r"(?<![\w.%+-])[\w.%+-]+@[\w-]+(?:\.[\w-]+)+"),
}
MOST_PATTERNS, MOST_CHARACTERS = 32, 256
"""Patterns of a model, and the characters of each, and of what it matches."""
MOST_WAYS = 100
"""In which all patterns of a model may be tried at one character."""
PARSER = importlib.import_module("re._parser" if sys.version_info >= (3, 11) else "sre_parse")
OF_ONE = ("ANY", "AT", "CATEGORY", "IN", "LITERAL", "NOT_LITERAL")
"""Parts of an expression that are tried once."""
PLACE = "/leave_out"


def parse_leave_out(description: Any) -> dict[str, Any]:
    """The complete description. Raises WrongDescription."""
    if not isinstance(description, Mapping) or description.keys() - {*USUAL, PATTERNS}:
        fields = ", ".join((*USUAL, PATTERNS))
        raise WrongDescription(PLACE, f"an object with {fields}, of which each may be missing")
    for name in USUAL:
        if not isinstance(description.get(name, False), bool):
            raise WrongDescription(f"{PLACE}/{name}", f"{name} is true or false")
    patterns = description.get(PATTERNS, [])
    if not isinstance(patterns, list) or len(patterns) > MOST_PATTERNS:
        detail = f"a list of at most {MOST_PATTERNS} regular expressions"
        raise WrongDescription(f"{PLACE}/{PATTERNS}", detail)
    left = MOST_WAYS
    for position, pattern in enumerate(patterns):
        left -= _ways_of(pattern, f"{PLACE}/{PATTERNS}/{position}", most=left)
    return {**{name: description.get(name, False) for name in USUAL}, PATTERNS: list(patterns)}


def redactor(described: Mapping[str, Any]) -> Callable[[str], str]:
    """Leaves out of a text what the description says."""
    usual = tuple(name for name in USUAL if described[name])
    return _redactor(usual, tuple(described[PATTERNS]))


@lru_cache(maxsize=64)
def _redactor(usual: tuple[str, ...], patterns: tuple[str, ...]) -> Callable[[str], str]:
    # What is told by its form comes before numbers, which may be a part of it.
    rules = [re.compile(rule) for rule in patterns] + [USUAL[name] for name in reversed(usual)]

    def redact(text: str) -> str:
        for pattern in rules:
            text = pattern.sub(lambda match: MARK * len(match[0]), text)
        return text

    return redact


def _ways_of(pattern: Any, at: str, *, most: int) -> int:
    """In how many ways a pattern may be tried at one character. Raises WrongDescription."""
    if not isinstance(pattern, str) or not 1 <= len(pattern) <= MOST_CHARACTERS:
        raise WrongDescription(at, f"a regular expression of 1 to {MOST_CHARACTERS} characters")
    try:
        parsed = PARSER.parse(pattern)
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise WrongDescription(at, f"this is no regular expression: {error}") from None
    ways = _ways(parsed, at)
    if ways > most or parsed.getwidth()[1] > MOST_CHARACTERS:
        raise WrongDescription(
            at,
            f"it may match in {ways} ways, and the model's patterns together in {MOST_WAYS} at "
            f"most, of up to {MOST_CHARACTERS} characters: repeat by smaller numbers, as {{1,8}}",
        )
    return ways


def _ways(parsed: Iterable[tuple[Any, Any]], at: str) -> int:
    ways = 1
    for operator, argument in parsed:
        name = str(operator)
        if name in OF_ONE:
            continue
        if name == "SUBPATTERN":
            ways *= _ways(argument[-1], at)
        elif name == "BRANCH":
            ways *= sum(_ways(branch, at) for branch in argument[1])
        elif name == "MAX_REPEAT":
            ways *= _repeated(*argument, at=at)
        else:
            detail = f"{name.lower()} is not taken; use characters, classes, groups, | and {{m,n}}"
            raise WrongDescription(at, detail)
        ways = min(ways, MOST_WAYS**2)
    return ways


def _repeated(least: int, most: Any, item: Iterable[tuple[Any, Any]], *, at: str) -> int:
    if int(most) > MOST_CHARACTERS:
        detail = (
            f"* and + have no end: say how often at most, as in {{1,8}}, up to {MOST_CHARACTERS}"
        )
        raise WrongDescription(at, detail)
    of_one = _ways(item, at)
    ways: int = sum(of_one**times for times in range(least, int(most) + 1))
    return min(ways, MOST_WAYS**2)
