"""The demo's data: a base model, the device's samples, and held-out digits."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

GROUND = 0.35
SHADES, ASCII_SHADES = " ░▒▓█", " .+#@"


def folder() -> Path:
    """`cli/demo_data` in an installed wheel, `examples/digits` in a checkout."""
    rooms = Path(__file__).parents[2]
    packed = rooms / "cli" / "demo_data"
    return packed if packed.is_dir() else rooms / "examples" / "digits"


def kept_back() -> tuple[NDArray[Any], NDArray[Any]]:
    """Images (397, 1, 8, 8) float32 and labels (397,) int64 that no training has seen."""
    import numpy as np

    with np.load(folder() / "kept_back.npz") as arrays:
        return arrays["image"], arrays["label"]


def predicted(model: Path | bytes, **inputs: NDArray[Any]) -> NDArray[Any]:
    """The likeliest classes, (n,) int64, as in any app: by plain ONNX Runtime inference."""
    from service.training.engines.runtime import onnxruntime

    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    classes: NDArray[Any] = session.run(None, inputs)[0].argmax(axis=1)
    return classes


def drawing(image: NDArray[Any], *, shades: str) -> list[str]:
    """Eight lines of 16 characters. image: (1, 8, 8) in [0, 1]; the faded background is blank."""
    ink = ((image[0] - GROUND) / (1 - GROUND)).clip(0, 1) * (len(shades) - 1)
    return ["".join(shades[round(float(level))] * 2 for level in row) for row in ink]
