"""Errors as people read them: on stderr, with exit code 1."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import IO, TYPE_CHECKING, Any

import click

from cli.output import echo_text
from service.logs import for_stderr
from storage.errors import HoneError

if TYPE_CHECKING:
    import httpx


MAX_FAULTS = 10
COMMANDS = {
    r"GET /v1/models/\{name\}/triggers": "`honed triggers list`",
    r"GET /v1/models": "`honed models list`",
    r"GET /v1/jobs": "`honed jobs list`",
    r"GET /v1/tokens": "`honed tokens list`",
    r"PUT /v1/models/(\S+)/follow": r"`honed models follow \1`",
    r"send some to /v1/models/(\S+)/samples": r"send some with `honed samples add \1 FILES`",
    r"\?on_error=skip": "--on-error skip",
    r"\?unlabel=true": "--unlabel",
}
"""What people give instead of each route or parameter; a route precedes one that it begins with."""


class Failure(click.ClickException):
    """The command failed; the message is ready to be read. Click ends with exit code 1.

    faults: JSON pointer and detail of each problem; the message contains them too.
    """

    def __init__(self, message: str, faults: Iterable[tuple[str, str]] = ()) -> None:
        super().__init__(message)
        self.faults = list(faults)

    def show(self, file: IO[Any] | None = None) -> None:
        """Write the message to stderr."""
        echo_text(for_stderr(f"error: {self.format_message()}", "ERROR"), file=file, err=True)

    def within(self, before: str, after: str = "") -> Failure:
        """The same failure, with text before and after its message."""
        return Failure(f"{before}{self.message}{after}", self.faults)


class Unreachable(Failure):
    """No daemon answers, or the connection to it broke."""


def from_error(error: HoneError) -> Failure:
    """A failure with the full content of one of our errors."""
    return Failure(
        _join(error.detail, ((problem.pointer, problem.detail) for problem in error.problems))
    )


def from_response(response: httpx.Response) -> Failure:
    """A failure with the content of a problem document (RFC 9457). The body must have been read."""
    if "json" not in response.headers.get("content-type", ""):
        return Failure(f"HTTP {response.status_code} {response.reason_phrase}: {response.text}")
    document = response.json()
    text = str(document.get("detail") or document.get("title"))
    for route, command in COMMANDS.items():
        text = re.sub(route, command, text)
    faults = [
        (fault.get("pointer", ""), fault.get("detail", ""))
        for fault in document.get("errors") or ()
    ]
    return Failure(_join(text, faults), faults)


def _join(text: str, faults: Iterable[tuple[str, str]]) -> str:
    """The faults below the text; one that the text already contains adds only its place.

    The same fault at many places is reported once.
    """
    listed = list(faults)
    if len(listed) == 1 and listed[0][1] in text:
        return f"{text} (at {listed[0][0]})" if listed[0][0] else text
    places: dict[str, list[str]] = {}
    for pointer, detail in listed:
        places.setdefault(detail, []).append(pointer)
    lines = [_told(pointers, detail) for detail, pointers in places.items()]
    rest = [f"  and {len(lines) - MAX_FAULTS} more"] if len(lines) > MAX_FAULTS else []
    return "\n".join([text, *lines[:MAX_FAULTS], *rest])


def _told(pointers: list[str], detail: str) -> str:
    """One fault, and the first of the places that have it."""
    more = f" (and {len(pointers) - 1} more)" if len(pointers) > 1 else ""
    return f"  {pointers[0]}{more}: {detail}" if pointers[0] else f"  {detail}"
