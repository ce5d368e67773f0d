"""A daemon to measure: the tests' own harness, in a folder that goes away."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from laptop import Laptop
from support import Served, mlp, npz, wait_until

__all__ = ["Laptop", "Served", "digits_cnn", "mlp", "npz", "served", "wait_until"]


@contextmanager
def served(**settings: object) -> Iterator[Served]:
    """A running daemon with these settings; stopped and removed at the end."""
    with tempfile.TemporaryDirectory(prefix="honed-bench-") as folder:
        running = Served(Path(folder) / "data", **settings)
        try:
            yield running
        finally:
            running.stop()


def digits_cnn() -> bytes:
    """The demo's CNN: input `image` (batch, 1, 8, 8)."""
    return (Path(__file__).parent.parent / "examples/digits/base.onnx").read_bytes()
