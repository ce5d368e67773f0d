"""Imports of `onnxruntime.training` fail for a while.

`import onnxruntime` looks for its ORTModule; the training build would load its offline tools, onnx
and protobuf before it finds that torch is missing: 13 MB and 65 ms.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

NAME = "onnxruntime.training"


@contextmanager
def without_training() -> Iterator[None]:
    """Let an import of it fail meanwhile."""
    sys.modules[NAME] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[NAME]
