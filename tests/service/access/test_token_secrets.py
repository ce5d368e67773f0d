"""Secrets by their form, and the admin's file, which a full disk leaves whole or not at all."""

from __future__ import annotations

import re
import stat
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from service.access.token_secrets import ALPHABET, admin_token, is_secret, new_secret
from storage.errors import StorageBroken

WITHOUT_ROOM = """
import resource, sys
from pathlib import Path
from service.access.token_secrets import admin_token
from storage.errors import StorageFull
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
try:
    admin_token(Path(sys.argv[1]))
except StorageFull as error:
    sys.exit(error.detail)
"""


def test_a_secret_has_256_random_bits_a_prefix_and_a_checksum() -> None:
    first, second = new_secret(), new_secret()
    assert re.fullmatch(r"hone_[0-9A-Za-z]{49}", first)
    assert first != second
    value = 0
    for character in first[-6:]:
        value = value * len(ALPHABET) + ALPHABET.index(character)
    assert value == zlib.crc32(first.removeprefix("hone_")[:-6].encode())


def test_what_is_no_whole_secret_is_told_from_one() -> None:
    secret = new_secret()
    last = "1" if secret[-1] == "0" else "0"
    assert is_secret(secret)
    for other in ("", "hone_", secret[:-1], secret + "0", secret[:-1] + last, secret.upper()):
        assert not is_secret(other)


@pytest.mark.skipif(sys.platform == "win32", reason="there is no RLIMIT_FSIZE on Windows")
@pytest.mark.parametrize("room_bytes", [0, 20])
def test_a_full_disk_leaves_no_part_of_an_admin_token(tmp_path: Path, room_bytes: int) -> None:
    arguments = [sys.executable, "-c", WITHOUT_ROOM, str(tmp_path), str(room_bytes)]
    done = subprocess.run(arguments, capture_output=True, text=True, cwd=Path(), check=False)
    path = tmp_path / "admin.token"
    assert f"cannot keep the admin token in {path}: File too large" in done.stderr
    assert not path.exists()

    token = admin_token(tmp_path)

    assert is_secret(token)
    assert token == admin_token(tmp_path) == path.read_text().strip()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [*tmp_path.iterdir()] == [path]


@pytest.mark.parametrize("content", [b"", b"\n", b"hone_7stFg4fsCV5IkwpiNoUQRSwJitx8", b"\xff\xfe"])
def test_a_file_that_holds_no_token_is_named_with_what_to_do(
    tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "admin.token"
    path.write_bytes(content)
    with pytest.raises(StorageBroken, match=f"{re.escape(str(path))} is .* or remove the file"):
        admin_token(tmp_path)
    assert path.read_bytes() == content
