"""Which form the samples of a model have."""

from __future__ import annotations

from service.errors import InvalidInput
from service.preprocess import for_model
from storage.errors import Problem
from storage.records import Model


def takes_images(model: Model) -> bool:
    """Whether the model's samples are images, and not tensors."""
    return for_model(model).image is not None


def require_tensors(model: Model) -> None:
    """Raises InvalidInput for a model whose samples are images."""
    if takes_images(model):
        detail = "send PNG, JPEG or WebP, as the body or as files of a multipart form"
        title = f"the samples of {model.name!r} are images"
        raise InvalidInput(title, problems=[Problem("", detail)])


def require_images(model: Model) -> None:
    """Raises InvalidInput for a model that does not say how an image becomes its input."""
    if not takes_images(model):
        detail = 'register it with spec.preprocess of kind "image", or send tensors'
        title = f"model {model.name!r} takes no images"
        raise InvalidInput(title, problems=[Problem("", detail)])
