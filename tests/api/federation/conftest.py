"""Models that may take part in federated training."""

from __future__ import annotations

import re

import pytest
from federated import Device, make_device
from support import Served


@pytest.fixture
def device(served: Served, request: pytest.FixtureRequest) -> Device:
    """A model of the test's own name, that nobody has allowed anything yet."""
    name = re.sub(r"\W+", "-", request.node.name.removeprefix("test_"))
    return make_device(served, name[-50:].strip("-_"))
