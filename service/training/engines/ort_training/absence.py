"""Makes imports of `onnxruntime.training` fail temporarily.

`import onnxruntime` looks for its ORTModule; the training build would load its offline tools, onnx
and protobuf before finding that torch is missing, which takes 13 MB and 65 ms.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

NAME = "onnxruntime.training"


@contextmanager
def without_training() -> Iterator[None]:
    """Make imports of it fail inside the block."""
    sys.modules[NAME] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[NAME]
