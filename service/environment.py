"""The environment that child processes get."""

from __future__ import annotations

import os


def without_token() -> dict[str, str]:
    """The daemon's own environment, but for the token that it may hold."""
    return {name: value for name, value in os.environ.items() if name != "HONED_TOKEN"}
