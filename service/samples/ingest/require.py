"""Checks which form of samples a model takes."""

from __future__ import annotations

from collections.abc import Sequence

from service.errors import InvalidInput
from service.preprocess import Description, for_model, for_signature
from storage.errors import Problem
from storage.records.models import Model
from storage.records.signatures import Signature

RESERVED = ("label", "key")
"""Arrays of an .npz that are no inputs."""


def takes_images(model: Model) -> bool:
    """Whether the model takes images, not tensors."""
    return for_model(model).image is not None


def require_tensors(model: Model) -> None:
    """Raises InvalidInput for a model that takes images."""
    if takes_images(model):
        detail = "send PNG, JPEG or WebP, as the body or as files of a multipart form"
        title = f"the samples of {model.name!r} are images"
        raise InvalidInput(title, problems=[Problem("", detail)])


def require_images(model: Model) -> None:
    """Raises InvalidInput for a model without preprocessing of images."""
    if not takes_images(model):
        detail = 'register it with spec.preprocess of kind "image", or send tensors'
        title = f"model {model.name!r} takes no images"
        raise InvalidInput(title, problems=[Problem("", detail)])


def require_names(signature: Signature, preprocess: Sequence[Description]) -> None:
    """Raises InvalidInput for input names that an .npz uses for something else, such as `label`."""
    if for_signature(signature, preprocess).image is not None:
        return
    problems = [
        Problem(
            f"/model/graph/input/{spec.name}",
            f"an input cannot be named {spec.name!r}, which in an .npz is the samples' "
            f"{spec.name}s; rename it in the ONNX file",
        )
        for spec in signature.inputs
        if spec.name in RESERVED
    ]
    if problems:
        raise InvalidInput("an input's name is taken", problems=problems)
