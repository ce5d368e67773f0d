"""Checks the form of samples that a model takes."""

from __future__ import annotations

from collections.abc import Sequence

from service.errors import InvalidInput
from service.preprocess import Description, FileKind, for_model, for_signature
from service.samples.columns import COLUMNS
from storage.errors import Problem, pointer
from storage.records.models import Model
from storage.records.signatures import Signature


def takes_files(model: Model) -> bool:
    """Whether the model's samples are files, such as images, not tensors."""
    return for_model(model).files is not None


def require_tensors(model: Model) -> None:
    """Raises InvalidInput for a model whose samples are files."""
    kind = for_model(model).files
    if kind is not None:
        detail = f"send {kind.wanted}, as the body or as files of a multipart form"
        title = f"the samples of {model.name!r} are {kind.things}"
        raise InvalidInput.at("", detail, title=title)


def require_files(model: Model) -> FileKind:
    """A model's preprocessing of files. Raises InvalidInput for one whose samples are tensors."""
    kind = for_model(model).files
    if kind is None:
        from service.preprocess.kinds import KINDS

        kinds = " or ".join(repr(k) for k, known in KINDS.items() if issubclass(known, FileKind))
        detail = f"register it with spec.preprocess of kind {kinds}, or send tensors"
        title = f"model {model.name!r} takes no files"
        raise InvalidInput.at("", detail, title=title)
    return kind


def require_names(signature: Signature, preprocess: Sequence[Description]) -> None:
    """Raises InvalidInput for input names that an .npz uses for something else, such as `label`."""
    if for_signature(signature, preprocess).files is not None:
        return
    # Other columns give way to an input of their name.
    reserved = ("label", *(each.name for each in COLUMNS if each.in_npz and each.asked is None))
    problems = [
        Problem(
            "/model/graph/input" + pointer(spec.name),
            f"an input cannot be named {spec.name!r}, which in an .npz is the samples' "
            f"{spec.name}s; rename it in the ONNX file",
        )
        for spec in signature.inputs
        if spec.name in reserved
    ]
    if problems:
        raise InvalidInput("an input's name is taken", problems=problems)
