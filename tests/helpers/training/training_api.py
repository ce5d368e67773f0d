"""Tests of On-Device Training run where the runtime has it."""

from __future__ import annotations

import pytest

from service.training.engines.ort_training import runtime
from service.training.errors import EngineMissing


def require_training_api() -> None:
    """Skip the test, with the reason, where it is missing."""
    try:
        runtime.training_api()
    except EngineMissing as missing:
        pytest.skip(missing.detail)
