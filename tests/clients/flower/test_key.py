"""The node's private key: made whole, and named where it is not."""

from __future__ import annotations

import stat
import subprocess
from pathlib import Path


def key(flower: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [flower / "bin" / "honed-flower", "key", "--folder", folder]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_key_that_is_not_whole_is_named_with_what_to_do(flower: Path, tmp_path: Path) -> None:
    made = key(flower, tmp_path / "node")
    assert made.returncode == 0, made.stderr
    file = tmp_path / "node" / "node.key"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert sorted(each.name for each in file.parent.iterdir()) == ["node.key", "node.pub"]
    for content in (b"", file.read_bytes()[:100]):
        file.write_bytes(content)
        refused = key(flower, tmp_path / "node")
        assert refused.returncode == 1
        assert f"{file} holds no whole private key" in refused.stderr
