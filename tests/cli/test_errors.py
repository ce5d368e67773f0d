from __future__ import annotations

import os
import sys
from pathlib import Path

import httpx
import pytest

from cli.errors import Failure, from_error, from_response
from storage.errors import HoneError, Problem

PROBLEM_JSON = {"content-type": "application/problem+json"}


def test_a_problem_document_is_told_with_every_place() -> None:
    document = {
        "title": "Unprocessable Content",
        "detail": "2 samples are wrong",
        "errors": [
            {"pointer": "/samples/0/label", "detail": "12 is not in [0, 10)"},
            {"pointer": "/samples/3/inputs/image", "detail": "shape [8, 8]"},
        ],
    }
    response = httpx.Response(422, json=document, headers=PROBLEM_JSON)
    assert from_response(response).message.splitlines() == [
        "2 samples are wrong",
        "  /samples/0/label: 12 is not in [0, 10)",
        "  /samples/3/inputs/image: shape [8, 8]",
    ]


@pytest.mark.parametrize(
    ("route", "command"),
    [
        ("GET /v1/jobs", "`honed jobs list`"),
        ("GET /v1/models", "`honed models list`"),
        ("GET /v1/models/{name}/triggers", "`honed triggers list`"),
        ("PUT /v1/models/a.b/follow", "`honed models follow a.b`"),
        ("send some to /v1/models/a.b/samples", "send some with `honed samples add a.b FILES`"),
        ("?on_error=skip", "--on-error skip"),
        ("?unlabel=true", "--unlabel"),
    ],
)
def test_a_route_that_an_app_would_ask_is_told_as_a_command(route: str, command: str) -> None:
    document = {"title": "Not Found", "detail": f"there is no such one; {route} lists them"}
    response = httpx.Response(404, json=document, headers=PROBLEM_JSON)
    assert from_response(response).message == f"there is no such one; {command} lists them"


def test_what_is_wrong_at_many_places_is_told_once() -> None:
    same = [Problem(f"/samples/{at}/label", "'cta' is no class") for at in range(162)]
    other = [Problem("/samples/3/inputs/x", "shape [8, 8]")]
    assert from_error(HoneError("163 are wrong", problems=same + other)).message.splitlines() == [
        "163 are wrong",
        "  /samples/0/label (and 161 more): 'cta' is no class",
        "  /samples/3/inputs/x: shape [8, 8]",
    ]


def test_ten_faults_are_told_and_the_others_counted() -> None:
    faults = [Problem(f"/{at}", f"wrong in way {at}") for at in range(14)]
    lines = from_error(HoneError("wrong", problems=faults)).message.splitlines()
    assert len(lines) == 12
    assert lines[-1] == "  and 4 more"


def test_a_single_place_that_repeats_the_detail_adds_only_its_pointer() -> None:
    error = HoneError("no such output", problems=[Problem("/spec/output", "no such output")])
    assert from_error(error).message == "no such output (at /spec/output)"


def test_an_answer_that_is_no_problem_document_is_shown_as_it_is() -> None:
    failure = from_response(httpx.Response(502, text="bad gateway"))
    assert failure.message == "HTTP 502 Bad Gateway: bad gateway"


def test_a_failure_goes_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    Failure("broken").within("file: ").show()
    assert capsys.readouterr() == ("", "error: file: broken\n")


@pytest.mark.skipif(os.name != "posix", reason="the journal is systemd's")
def test_in_the_journal_a_failure_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with (tmp_path / "journal").open("w+", encoding="utf-8") as journal:
        status = os.fstat(journal.fileno())
        monkeypatch.setenv("JOURNAL_STREAM", f"{status.st_dev}:{status.st_ino}")
        monkeypatch.setattr(sys, "stderr", journal)
        Failure("broken\nMend it").show()
        journal.seek(0)
        assert journal.read() == "<3>error: broken\n<3>Mend it\n"
