"""Where Flower is installed, for tests that need it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def flower() -> Path:
    """The environment that honed-flower is installed in."""
    named = os.environ.get("HONE_FLOWER")
    if not named:
        pytest.skip("needs Flower, 300 MB: `make test-flower` installs it and runs this")
    return Path(named)
