"""The secrets of tokens: made, recognized, and the admin's, which is kept in a file."""

from __future__ import annotations

import hmac
import re
import secrets
import string
import zlib
from pathlib import Path

from storage.disk.durable import file_faults, write_file
from storage.errors import StorageBroken

PREFIX = "hone_"
"""Prefix of every secret, so that repository scanners find leaked ones."""
ALPHABET = string.digits + string.ascii_letters
RANDOM_CHARACTERS = 43
"""62^43 is more than 2^256."""
CHECK_CHARACTERS = 6
"""Length of the CRC-32 at the end, by which a scanner tells a secret from other text."""
_FORM = re.compile(f"{PREFIX}([{ALPHABET}]{{{RANDOM_CHARACTERS}}})([{ALPHABET}]+)")


def new_secret() -> str:
    """A prefix, 256 random bits as letters and digits, and a checksum."""
    drawn = "".join(secrets.choice(ALPHABET) for _ in range(RANDOM_CHARACTERS))
    return PREFIX + drawn + _checksum(drawn)


def is_secret(text: str) -> bool:
    """Whether it has the form of a secret: it is complete, and its checksum is right."""
    parts = _FORM.fullmatch(text)
    return parts is not None and hmac.compare_digest(_checksum(parts[1]), parts[2])


def admin_token(data_dir: Path) -> str:
    """The admin token, created at the first start in DATA_DIR/admin.token, mode 0600.

    Raises StorageBroken if the file holds anything else, StorageFull.
    """
    path = data_dir / "admin.token"
    with file_faults(f"cannot keep the admin token in {path}"):
        if not path.exists():
            write_file(path, f"{new_secret()}\n".encode())
        text = read_secret(path)
    if not is_secret(text):
        raise StorageBroken(
            f"{path} is {'damaged' if text else 'empty'}: it holds the admin token, which is "
            f"{PREFIX} and {RANDOM_CHARACTERS + CHECK_CHARACTERS} characters in one line; put that "
            "back, or remove the file, and the next start makes a new token"
        )
    return text


def read_secret(path: Path) -> str:
    """The line of a file, which may be no secret. Raises OSError."""
    return path.read_text("ascii", errors="replace").strip()


def _checksum(text: str) -> str:
    rest, digits = zlib.crc32(text.encode()), ""
    for _ in range(CHECK_CHARACTERS):
        rest, digit = divmod(rest, len(ALPHABET))
        digits = ALPHABET[digit] + digits
    return digits
