"""What an app does with `preprocess` as `GET /v1/models/{name}` describes it: Pillow and numpy."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from PIL import Image, ImageOps


def prepare(photo: bytes, described: dict[str, Any]) -> np.ndarray:
    """The model's input for one photo, batch axis first."""
    picture = ImageOps.exif_transpose(Image.open(io.BytesIO(photo))).convert("RGB")
    height, width = described["size"]
    fitted = ImageOps.fit(picture, (width, height), Image.Resampling.BILINEAR)
    pixels = np.asarray(fitted, np.float32) / described["scale"]
    pixels = (pixels - described["mean"]) / described["std"]
    return pixels.transpose(2, 0, 1)[None].astype(np.float32)
