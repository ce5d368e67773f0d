"""What a node needs before it connects: a whole private key, and a daemon that takes its token."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from pathlib import Path

from support import Served


def key(flower: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [flower / "bin" / "honed-flower", "key", "--folder", folder]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_key_that_is_not_whole_is_named_with_what_to_do(flower: Path, tmp_path: Path) -> None:
    made = key(flower, tmp_path / "node")
    assert made.returncode == 0, made.stderr
    file = tmp_path / "node" / "node.key"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert sorted(path.name for path in file.parent.iterdir()) == ["node.key", "node.pub"]
    for content in (b"", file.read_bytes()[:100]):
        file.write_bytes(content)
        refused = key(flower, tmp_path / "node")
        assert refused.returncode == 1
        assert f"{file} holds no whole private key" in refused.stderr


def test_a_file_without_certificates_ends_the_node_at_once(flower: Path, tmp_path: Path) -> None:
    command = [flower / "bin" / "honed-flower", "join", "127.0.0.1:9", "--model", "digits"]
    for content in (b"", b"no PEM", "é".encode()):
        (tmp_path / "ca.pem").write_bytes(content)
        done = subprocess.run(
            [*command, "--folder", tmp_path, "--root-certificates", tmp_path / "ca.pem"],
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
        )
        assert done.returncode == 2
        assert "ca.pem holds no certificates as PEM" in done.stderr


def test_an_address_that_is_none_ends_the_node_without_a_traceback(
    flower: Path, tmp_path: Path
) -> None:
    command = [flower / "bin" / "honed-flower", "join", "127.0.0.1:9x", "--model", "digits"]
    done = subprocess.run(
        [*command, "--folder", tmp_path],
        env={**os.environ, "HONED_URL": "http://127.0.0.1:9", "HONED_TOKEN": "none"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    assert "its lines above say why" in done.stderr.splitlines()[-1]


def test_a_token_that_the_daemon_refuses_ends_the_node_at_once(
    flower: Path, served: Served, tmp_path: Path
) -> None:
    command = [flower / "bin" / "honed-flower", "join", "127.0.0.1:9", "--model", "digits"]
    done = subprocess.run(
        [*command, "--folder", tmp_path],
        env={**os.environ, "HONED_URL": served.url, "HONED_TOKEN": "of-another"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "the daemon refuses this node: this is neither the token of" in done.stderr
    state = json.loads((tmp_path / "state.json").read_text())
    assert "pid" not in state
    assert "refuses this node" in state["last"]
