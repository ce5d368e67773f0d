"""Real architectures at small sizes: PyTorch's own, timm's, torchvision's and transformers'."""

from __future__ import annotations

from tests.zoo.architectures import dense, images, language, pictures, sequences
from tests.zoo.architectures.architecture import Architecture

ARCHITECTURES: dict[str, Architecture] = {
    **images.ARCHITECTURES,
    **pictures.ARCHITECTURES,
    **language.ARCHITECTURES,
    **sequences.ARCHITECTURES,
    **dense.ARCHITECTURES,
}
