"""What is left out of texts, and that no regular expression takes the daemon's time."""

from __future__ import annotations

import time
from typing import Any

import pytest

from service.preprocess.checks import WrongDescription
from service.preprocess.redaction import MOST_WAYS, parse_leave_out, redactor

LONG = 2**18
"""Characters of a text that is made to take long; the longest has four times as many."""
SOON_S = 20.0
"""Even on a busy machine; without bounds it would be hours."""


def left(text: str, **leave_out: Any) -> str:
    return redactor(parse_leave_out(leave_out))(text)


def test_each_character_becomes_a_mark() -> None:
    text = "Ask jo.doe+x@mail.example.org, call +49 170 12, by 2026-11-25."
    assert (
        left(text, numbers=True) == "Ask jo.doe+x@mail.example.org, call +## ### ##, by ####-##-##."
    )
    assert left(text, mails=True) == f"Ask {'#' * 25}, call +49 170 12, by 2026-11-25."
    both = left(text, numbers=True, mails=True)
    assert (len(both), both[4:29]) == (len(text), "#" * 25)
    assert left(text) == text


def test_digits_of_all_scripts_are_numbers() -> None:
    assert left("٣٤ and 三 and ४", numbers=True) == "## and 三 and #"


@pytest.mark.parametrize("text", ["a@b", "@example.org", "a@", "two @ signs", "a b@c d"])
def test_what_is_no_mail_stays(text: str) -> None:
    assert left(text, mails=True) == text


def test_patterns_are_left_out() -> None:
    iban = r"\b[A-Z]{2}\d{2}[A-Z0-9 ]{10,30}\b"
    found = left("to DE12 5001 0517 0648 4898 90.", patterns=[iban, "(?i:secret|hidden)"])
    assert found == f"to {'#' * 27}."
    assert left("a Secret is HIDDEN", patterns=["(?i:secret|hidden)"]) == "a ###### is ######"


@pytest.mark.parametrize(
    ("given", "place", "words"),
    [
        ([], "", "an object with numbers, mails, patterns"),
        ({"names": True}, "", "an object with numbers, mails, patterns"),
        ({"numbers": 1}, "/numbers", "true or false"),
        ({"patterns": "a"}, "/patterns", "a list of at most 32"),
        ({"patterns": ["a"] * 33}, "/patterns", "at most 32"),
        ({"patterns": ["b", ""]}, "/patterns/1", "1 to 256 characters"),
        ({"patterns": ["("]}, "/patterns/0", "no regular expression: missing )"),
        ({"patterns": ["a*"]}, "/patterns/0", "have no end"),
        ({"patterns": ["(a+)+b"]}, "/patterns/0", "have no end"),
        ({"patterns": ["(?:a{1,9}){1,9}b"]}, "/patterns/0", "smaller numbers"),
        ({"patterns": ["(?:[ab]|[bc]d){1,9}e"]}, "/patterns/0", "smaller numbers"),
        ({"patterns": ["a{0,9}b{0,9}c{0,9}"]}, "/patterns/0", "smaller numbers"),
        ({"patterns": ["(?:a{1,60}){5}"]}, "/patterns/0", "smaller numbers"),
        ({"patterns": [r"(a)\1"]}, "/patterns/0", "groupref is not taken"),
        ({"patterns": ["(?=a)"]}, "/patterns/0", "assert is not taken"),
        ({"patterns": ["a{1,60}", "b{1,60}"]}, "/patterns/1", f"together in {MOST_WAYS}"),
    ],
)
def test_what_is_wrong_is_told_by_its_place(given: Any, place: str, words: str) -> None:
    with pytest.raises(WrongDescription) as wrong:
        parse_leave_out(given)
    assert wrong.value.pointer == f"/leave_out{place}"
    assert words in wrong.value.detail


@pytest.mark.parametrize(
    ("patterns", "unit"),
    [
        (["a{1,99}b"], "a"),
        (["[ab]{0,9}[ab]{0,8}c"], "ab"),
        (["(?:a|ab){1,5}c"], "ab"),
        ([], "a"),
        ([], "a."),
        ([], "a@b."),
        ([], "a@"),
        ([], "1 "),
    ],
)
def test_texts_that_nearly_match_take_bounded_time(patterns: list[str], unit: str) -> None:
    began = time.monotonic()
    left(unit * (LONG // len(unit)), numbers=True, mails=True, patterns=patterns)
    assert time.monotonic() - began < SOON_S
