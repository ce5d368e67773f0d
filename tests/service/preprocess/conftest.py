from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from PIL import Image as Pillow

from storage.records.signatures import TensorSpec

Encode = Callable[..., bytes]


@pytest.fixture
def encode() -> Encode:
    """A picture as a file; pixels: (h, w) or (h, w, channels)."""

    def encode(pixels: Any, kind: str = "PNG", *, mode: str | None = None, **options: Any) -> bytes:
        picture = Pillow.fromarray(np.asarray(pixels))
        if mode is not None:
            picture = picture.convert(mode)
        buffer = io.BytesIO()
        picture.save(buffer, kind, **options)
        return buffer.getvalue()

    return encode


@pytest.fixture
def gray_2x2() -> TensorSpec:
    return TensorSpec("image", "float32", (1, 2, 2))
