"""Checks the lines of an export of the audit log: nothing was changed, and nothing is missing."""

from __future__ import annotations

import json
import re
from collections import deque
from hashlib import sha256
from typing import Any

from storage.database.audit_chain import DAEMON, FIRST, PRUNED
from storage.errors import Damaged

_HASHED = re.compile(r'(\{"id":.*),"hash":"([0-9a-f]{64})"\}')
REMEMBERED = 1000
"""Of an export's newest entries, by which the log is recognized as the same."""


class AuditChain:
    """The entries of a log or an export, added in their order.

    removed: how many entries retention has removed, as the newest entry about that says. recent:
    the hashes of the newest entries by id.
    """

    def __init__(self) -> None:
        self.entries = self.last_id = self.removed = 0
        self.last_hash = FIRST.hex()
        self._missing = 0
        self._recent: deque[tuple[int, str]] = deque(maxlen=REMEMBERED)

    @property
    def recent(self) -> dict[int, str]:
        """Hashes of the newest entries by id."""
        return dict(self._recent)

    def add(self, line: str) -> None:
        """Check the next line. Raises Damaged if it does not belong there as it is."""
        entry, own = read_entry(line)
        if entry["id"] <= self.last_id:
            raise Damaged(f"entry {entry['id']} comes after entry {self.last_id}")
        if entry["id"] == self.last_id + 1 and entry["previous"] != self.last_hash:
            raise Damaged(
                f"entry {entry['id']} does not follow entry {self.last_id}: one of them is not "
                "what was written"
            )
        self._missing += entry["id"] - self.last_id - 1
        if (entry["who"], entry["action"]) == (DAEMON, PRUNED):
            self.removed = entry["facts"]["removed_in_all"]
        self.entries, self.last_id, self.last_hash = self.entries + 1, entry["id"], own
        self._recent.append((self.last_id, own))

    def require_all(self) -> None:
        """Raises Damaged if more is missing than retention has removed."""
        if self._missing > self.removed:
            raise Damaged(
                f"{self._missing:,} entries up to {self.last_id} are missing, and retention has "
                f"removed {self.removed:,}"
            )


def read_entry(line: str) -> tuple[dict[str, Any], str]:
    """An entry and its hash. Raises Damaged if that is not the line's own."""
    parts = _HASHED.fullmatch(line)
    if parts is None:
        raise Damaged(f"this is no entry of the audit log: {line[:80]!r}")
    content = parts[1] + "}"
    if sha256(content.encode()).hexdigest() != parts[2]:
        raise Damaged(f"an entry is not what was written: {line[:80]!r}")
    entry: dict[str, Any] = json.loads(content)
    return entry, parts[2]
