from __future__ import annotations

from pathlib import Path

import pytest

from cli.demo.daemon import running
from cli.errors import Failure


def test_a_daemon_that_does_not_come_up_shows_its_last_words(tmp_path: Path) -> None:
    (tmp_path / "honed.toml").write_text("log_level = 'loud'\n")
    with (
        pytest.raises(Failure, match=r"(?s)ended with exit code 78:.*setting log_level"),
        running(tmp_path),
    ):
        pass


def test_a_folder_belongs_to_one_daemon_and_a_stopped_one_ended_in_order(tmp_path: Path) -> None:
    with running(tmp_path) as first:
        with (
            pytest.raises(Failure, match=r"(?s)ended with exit code .* stop that daemon"),
            running(tmp_path),
        ):
            pass
        assert first.process.poll() is None
    assert first.process.returncode == 0


def test_this_machines_settings_do_not_reach_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HONED_MAX_JSON_BYTES", "not a number")
    with running(tmp_path) as daemon:
        assert daemon.client.get("/readyz")["status"] == "ok"
