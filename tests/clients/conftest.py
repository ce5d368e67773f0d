"""A model of two classes without names on a real daemon, for every SDK."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support import Served, blobs, mlp, wait_until

Promote = Callable[[], int]


@pytest.fixture(scope="module")
def bell(served: Served) -> str:
    """Registered and trained on once uploads are there; its classes have no names."""
    served.register("bell", mlp(8, 6, 3), gate={"mode": "always"})
    served.upload("bell", split="train", **blobs(64, 8, 3))
    return "bell"


@pytest.fixture
def promote(served: Served, bell: str) -> Promote:
    """Train a version, which becomes what apps get; its number."""

    def train() -> int:
        number: int = served.train(bell, epochs=1, ignore_policy=True)["version"]
        path = f"/v1/models/{bell}/latest"
        wait_until(lambda: served.http.get(path).json()["version"] == number, "latest")
        return number

    return train
