"""Logging: an event name plus fields, for people or as one JSON object a line.

Events never hold a sample, a label or a token. What others have named can neither end a line nor
make a terminal obey.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from collections import Counter
from datetime import datetime, timezone
from textwrap import indent
from typing import Any, TextIO

from storage.database.codec import dump

logger = logging.getLogger(__name__)

REPEAT_WINDOW_S = 60.0
MAX_REPEATS = 10
"""Of one line, in a window: a fault that comes back thousands of times must not fill the disk."""
PRIORITIES = {"DEBUG": 7, "INFO": 6, "WARNING": 4, "ERROR": 3, "CRITICAL": 2}
"""Those of syslog(3)."""
NEWLINE = "\n"
_HIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Control characters, those that change the direction of text, and halves of surrogate pairs."""


def visible(text: str, *, keep: str = "") -> str:
    """Text for a terminal or a log, with hidden characters as `\\u001b`, as JSON escapes them.

    keep: those that stay.
    """
    return _HIDDEN.sub(
        lambda match: match[0] if match[0] in keep else f"\\u{ord(match[0]):04x}", text
    )


def hidden_in(text: str) -> str | None:
    """The first character that `visible` escapes."""
    match = _HIDDEN.search(text)
    return None if match is None else match[0]


def event(logger: logging.Logger, level: int, name: str, **fields: Any) -> None:
    """Log the event `name` with its fields."""
    logger.log(level, name, extra={"fields": fields})


class HumanFormatter(logging.Formatter):
    """`12:00:01 info  job.started job=3 model=digits`."""

    def format(self, record: logging.LogRecord) -> str:
        fields = getattr(record, "fields", {})
        text = " ".join(f"{key}={_plain(value)}" for key, value in fields.items())
        clock = datetime.fromtimestamp(record.created).strftime("%H:%M:%S")
        line = f"{clock} {record.levelname.lower():7} {record.getMessage()} {text}".rstrip()
        if not record.exc_info:
            return visible(line)
        # Indented, so that no line of a foreign message looks like one of the log.
        traceback = indent(self.formatException(record.exc_info), "  ")
        return f"{visible(line)}\n{visible(traceback, keep=NEWLINE)}"


class JsonFormatter(logging.Formatter):
    """`{"time": …, "level": "info", "logger": …, "event": "job.started", "job": 3}`."""

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, timezone.utc)
        line: dict[str, Any] = {
            "time": time.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return visible(dump(line, default=str))


def for_stderr(text: str, level: str) -> str:
    """Where stderr leads to systemd's journal, each line begins with its priority, which the
    journal takes off (sd-daemon(3)). level: as in logging.
    """
    return indent(text, f"<{PRIORITIES[level]}>") if _is_journal(sys.stderr) else text


class StderrHandler(logging.StreamHandler[TextIO]):
    """Writes to stderr."""

    def format(self, record: logging.LogRecord) -> str:
        return for_stderr(super().format(record), record.levelname)


class RepeatLimit(logging.Filter):
    """Lets the same line through a few times a minute, and then tells how many were held back."""

    def __init__(self) -> None:
        super().__init__()
        self._since = 0.0
        self._counts: Counter[int] = Counter()

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to log the record; each minute begins anew."""
        if abs(record.created - self._since) >= REPEAT_WINDOW_S:  # the clock may be set back
            held_back = sum(
                count - MAX_REPEATS for count in self._counts.values() if count > MAX_REPEATS
            )
            self._since, self._counts = record.created, Counter()
            if held_back:
                event(logger, logging.WARNING, "log.repeats_held_back", lines=held_back)
        fields = repr(getattr(record, "fields", ""))
        # Its hash only: of a minute's lines nothing else is kept.
        line = hash((record.name, record.levelno, record.getMessage(), fields))
        self._counts[line] += 1
        return self._counts[line] <= MAX_REPEATS


def configure(*, log_format: str, level: str) -> None:
    """Send everything to stderr in one format; the HTTP server's loggers too."""
    handler = StderrHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == "json" else HumanFormatter())
    handler.addFilter(RepeatLimit())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in ("uvicorn", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
    logging.getLogger("uvicorn.error").setLevel(max(logging.WARNING, root.level))
    for name in ("httpx", "httpcore", "apscheduler"):
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))
    logging.getLogger("apscheduler.executors.default").addFilter(_is_no_cancellation)


def _is_journal(stream: TextIO) -> bool:
    """Whether it leads to systemd's journal (systemd.exec(5))."""
    try:
        status = os.fstat(stream.fileno())
    except (OSError, ValueError):  # no file, as a test's
        return False
    return os.environ.get("JOURNAL_STREAM") == f"{status.st_dev}:{status.st_ino}"


def _is_no_cancellation(record: logging.LogRecord) -> bool:
    """APScheduler logs as an error that work is cancelled when the daemon stops."""
    from asyncio import CancelledError

    return record.exc_info is None or record.exc_info[0] is not CancelledError


def _plain(value: Any) -> str:
    """Lists and objects as JSON, text bare where it has no spaces."""
    if isinstance(value, (dict, list, tuple)):
        return dump(value, default=str)
    text = str(value)
    return dump(text) if (" " in text or "\n" in text) else text
