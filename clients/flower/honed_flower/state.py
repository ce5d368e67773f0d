"""A node's state, in a file that `honed-flower status` reads and the next start repairs."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

NAME = "state.json"


class State:
    """Facts of one node, written whenever one changes.

    was_killed: whether the previous node did not shut down cleanly.
    """

    def __init__(self, folder: Path, **facts: Any) -> None:
        self._path = folder / NAME
        before = read_state(folder)
        names = ("replies", "bytes", "round_id")
        kept: dict[str, Any] = {name: before[name] for name in names if name in before}
        self.was_killed = "pid" in before
        self.facts: dict[str, Any] = {"replies": 0, "bytes": 0, **kept, **facts, "pid": os.getpid()}

    def update(self, **facts: Any) -> None:
        """Change some facts; None removes one."""
        changed = {**self.facts, **facts, "at": time.time()}
        self.facts = {name: value for name, value in changed.items() if value is not None}
        partial = self._path.with_suffix(".partial")
        partial.write_text(json.dumps(self.facts, indent=2), "utf-8")
        partial.replace(self._path)


def read_state(folder: Path) -> dict[str, Any]:
    """The facts last written; empty if there are none."""
    try:
        state: dict[str, Any] = json.loads((folder / NAME).read_text("utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return state
