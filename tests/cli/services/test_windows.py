"""The service's log on Windows; tests/platforms/windows has the service itself."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

windows_host = pytest.importorskip(
    "cli.services.windows_host", reason="this needs pywin32", exc_type=ImportError
)


def test_the_log_before_is_kept_when_it_is_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(windows_host, "MOST_LOG_BYTES", 3)
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(sys, name, getattr(sys, name))
    for line in ("first", "second"):
        windows_host.log_to(tmp_path / "honed.log")
        sys.stdout.write(f"{line}\n")
        sys.stdout.close()
    assert (tmp_path / "honed.log").read_text() == "second\n"
    assert (tmp_path / "honed.1.log").read_text() == "first\n"
