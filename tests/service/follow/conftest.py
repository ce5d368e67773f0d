"""A device that asks, a vendor, and a web server of the test's own."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from child_forks import programs_started
from vendors import Vendor, Website

from service.follow import download
from service.follow.fetch import carry_out
from service.follow.messages import (
    Fetched,
    FetchFailed,
    FetchMessage,
    Inquiry,
    line,
    message_in,
)
from service.processes.interpreter import APPLICATION, command, environment
from storage.errors import HoneError
from storage.records.follows import FollowTerms


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pause before a broken connection is made again."""
    monkeypatch.setattr(download, "PAUSES_S", (0.0,) * 4)


@pytest.fixture
def vendor() -> Vendor:
    return Vendor()


@pytest.fixture
def website() -> Any:
    with Website() as site:
        yield site


class Device:
    """Asks as the daemon does."""

    def __init__(self, folder: Path, vendor: Vendor) -> None:
        self.folder = folder
        self._keys = (vendor.pem,)

    def ask(self, source: str, **changes: Any) -> list[FetchMessage]:
        told: list[FetchMessage] = []
        try:
            told.append(carry_out(self.inquiry(source, **changes), told.append))
        except HoneError as error:
            told.append(FetchFailed(error.code, error.detail))
        return told

    def inquiry(self, source: str, **changes: Any) -> Inquiry:
        terms = {"source": source, "name": "digits", "keys": self._keys}
        terms |= changes.pop("terms", {})
        fields = {"draw": 50.0, "folder": str(self.folder), "reserve_bytes": 0, **changes}
        return Inquiry(FollowTerms(**terms), **fields)

    def ask_in_child(self, source: str, **changes: Any) -> list[FetchMessage]:
        with programs_started():  # the program as it is, which loads all in the sandbox
            child = subprocess.Popen(
                command("service.follow"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                cwd=APPLICATION,
                env=environment(),
            )
        with child:  # the end of its input would end it
            child.stdin.write(line(self.inquiry(source, **changes)))
            child.stdin.flush()
            told = child.stdout.read()
        assert child.returncode == 0
        return [message_in(line) for line in told.splitlines()]

    def fetch(self, source: str, **changes: Any) -> bytes:
        *_, last = self.ask(source, **changes)
        assert isinstance(last, Fetched), last
        return Path(last.model).read_bytes()

    def refusal(self, source: str, **changes: Any) -> tuple[str, str]:
        """Code and detail; nothing of the file is kept then."""
        *_, last = self.ask(source, **changes)
        assert isinstance(last, FetchFailed), last
        return last.code, last.detail


@pytest.fixture
def device(tmp_path: Path, vendor: Vendor) -> Device:
    folder = tmp_path / "downloads"
    folder.mkdir()
    return Device(folder, vendor)
