"""Log lines: their forms, and how often one may come."""

from __future__ import annotations

import json
import logging
import os
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from service.logs import (
    MAX_REPEATS,
    REPEAT_WINDOW_S,
    HumanFormatter,
    JsonFormatter,
    RepeatLimit,
    configure,
)


def record(message: str, *, at_s: float = 0.0, **fields: object) -> logging.LogRecord:
    made = logging.LogRecord("service.test", logging.WARNING, "f.py", 1, message, (), None)
    made.created, made.fields = at_s, fields
    return made


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    caplog.set_level(logging.WARNING, "service.logs")
    return caplog


def test_a_line_that_repeats_without_end_is_held_back(told: pytest.LogCaptureFixture) -> None:
    limit = RepeatLimit()
    passed = [limit.filter(record("accept failed", at_s=1000 + n / 100)) for n in range(1000)]

    assert sum(passed) == MAX_REPEATS
    assert limit.filter(record("another fault", at_s=1010))

    assert limit.filter(record("accept failed", at_s=1000 + REPEAT_WINDOW_S))
    assert told.records[-1].message == "log.repeats_held_back"
    assert told.records[-1].fields == {"lines": 1000 - MAX_REPEATS}

    for _ in range(MAX_REPEATS):
        limit.filter(record("accept failed", at_s=2e9))
    assert limit.filter(record("accept failed", at_s=2e9 - 1e8))  # the clock was set back


def test_the_daemons_log_has_the_limit(capsys: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    try:
        configure(log_format="human", level="info")
        for _ in range(MAX_REPEATS + 5):
            logging.getLogger("service.test").warning("accept failed")
    finally:
        root.handlers[:] = before
        root.setLevel(level)

    assert capsys.readouterr().err.count("accept failed") == MAX_REPEATS


def test_lines_that_differ_in_a_field_are_all_logged() -> None:
    limit = RepeatLimit()

    assert all(limit.filter(record("job.started", at_s=5, job=number)) for number in range(500))


def test_fields_are_told_without_pythons_forms() -> None:
    line = HumanFormatter().format(record("job.paused", by=["battery", "power"], why="too hot"))

    assert line.endswith('job.paused by=["battery","power"] why="too hot"')


def test_each_line_of_json_is_one_object() -> None:
    of = {"by": ["battery"], "file": Path("base.onnx")}
    line = json.loads(JsonFormatter().format(record("job.paused", **of)))

    assert (line["event"], line["by"], line["level"]) == ("job.paused", ["battery"], "warning")
    assert line["file"] == "base.onnx"


def test_lines_that_were_logged_are_not_kept() -> None:
    limit = RepeatLimit()
    tracemalloc.start()
    try:
        for number in range(1000):
            limit.filter(record("job.failed", job=number, detail="why " * 500))
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert kept < 200 * 1000


def test_what_others_name_makes_no_line_and_commands_no_terminal() -> None:
    foreign = "x\n12:00:01 info job.started\x1b[31m\u202e\x9b\x7f"
    try:
        raise ValueError(foreign)
    except ValueError:
        caught = sys.exc_info()
    made = record(foreign, path=foreign, at=[foreign])
    for exc_info in (None, caught):
        made.exc_info = exc_info
        for told in (HumanFormatter().format(made), JsonFormatter().format(made)):
            head, *traceback = told.split("\n")
            assert not set(told) & set("\x1b\u202e\x9b\x7f")
            assert r"\u001b[31m\u202e\u009b\u007f" in head
            assert all(line.startswith("  ") for line in traceback)
    assert json.loads(JsonFormatter().format(made))["path"] == foreign


def test_lines_of_the_journal_begin_with_their_priority(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, asked = logging.getLogger(), logging.getLogger("service.test")
    before, level = root.handlers[:], root.level
    with (tmp_path / "journal").open("w+") as journal:
        status = os.fstat(journal.fileno())
        monkeypatch.setattr(sys, "stderr", journal)
        try:
            for stream in ("", f"{status.st_dev}:{status.st_ino}"):
                monkeypatch.setenv("JOURNAL_STREAM", stream)
                configure(log_format="json", level="info")
                asked.info("job.started")
                asked.error("job.lost")
        finally:
            root.handlers[:] = before
            root.setLevel(level)
        journal.seek(0)
        begun = [line[:4] for line in journal]
    assert begun == ['{"ti', '{"ti', "<6>{", "<3>{"]
