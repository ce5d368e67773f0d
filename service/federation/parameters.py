"""The trained parameters of a model: those of its versions, and those received."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

from service.errors import InvalidInput
from service.federation.tensor_file import (
    Entry,
    Shapes,
    header_of,
    read_entries,
    read_pieces,
    require_parameters,
)
from storage.errors import NotFound, StateConflict
from storage.records.models import FileRecord, Model
from storage.records.versions import Version
from storage.store import Store


class Parameters(Struct, frozen=True):
    """Parameters of a version as safetensors. key: identifies these bytes, like an ETag."""

    key: str
    header: bytes
    path: Path
    entries: tuple[Entry, ...]

    @property
    def size_bytes(self) -> int:
        """Size of the whole file."""
        return len(self.header) + sum(entry.end - entry.start for entry in self.entries)

    def pieces(self) -> Iterator[bytes]:
        """The file in pieces."""
        yield self.header
        yield from read_pieces(self.path, self.entries)


def shapes_of(model: Model, store: Store) -> Shapes:
    """Name → shape of a model's trained parameters, sorted. Raises InvalidInput, Damaged."""
    if "manifest" not in model.files:
        detail = (
            f"{model.name!r} came as artifacts of Microsoft's tools, whose engine takes and gives "
            "no parameters; register the forward ONNX model"
        )
        raise InvalidInput.at("", detail, title="the model has no part in federated training")
    from service.training.engines.manifest import read_manifest

    path = store.integrity.file(model.files["manifest"].sha256)
    manifest = read_manifest(path)
    return {each.name: each.shape for each in sorted(manifest.parameters, key=lambda one: one.name)}


def check_parameters(model: Model, store: Store, path: Path) -> None:
    """Raises InvalidInput with every error, unless these are parameters of the model."""
    require_parameters(path, shapes_of(model, store))


def parameters_of(model: Model, version: Version, store: Store) -> Parameters:
    """The parameters of a version, sorted by name.

    Raises NotFound if its checkpoint is gone, StateConflict if its classes are no longer the
    model's or its labels have a scale, which is of this device's labels, Damaged, InvalidInput.
    """
    from service.training.engines import checkpoint
    from service.training.engines.ort_training import checkpoint_file

    model = model if version.base == model.base else store.models.of_version(version)
    if version.target.ids != model.signature.target.ids:
        raise StateConflict(
            f"version {version.version} tells apart other classes than the model does now; ask "
            "for a version that was made since"
        )
    shapes = shapes_of(model, store)
    file = _checkpoint(model, version, store)
    path = store.integrity.file(file.sha256)
    if checkpoint_file.is_one(path):
        raise NotFound(
            f"version {version.version} was trained by On-Device Training, whose checkpoints hold "
            "no safetensors; ask for a later version"
        )
    entries = read_entries(path)
    scale = _label_scale(path)
    if scale and scale != _label_scale(store.integrity.file(model.files["checkpoint"].sha256)):
        raise StateConflict(
            f"version {version.version} was trained on standardized labels, and its parameters "
            "mean nothing without their mean and deviation, which stay here; ask for version 1, or "
            "for a version whose job had standardize_labels false"
        )
    names = checkpoint.measured_names(path, shapes)
    metadata = {"model": model.name, "version": str(version.version)}
    return Parameters(
        key=f"{file.sha256}-{version.version}",
        header=header_of(shapes, metadata),
        path=path,
        entries=tuple(entries[names[shape]] for shape in shapes),
    )


def _label_scale(path: Path) -> list[Any]:
    """Of a checkpoint, empty if its model has none."""
    from service.training.engines import checkpoint
    from service.training.loss import LABEL_MEAN, LABEL_SCALE

    entries = read_entries(path)
    names = [name for name in (LABEL_SCALE, LABEL_MEAN) if name in entries]
    return [array.tolist() for array in checkpoint.read(path, names).values()]


def _checkpoint(model: Model, version: Version, store: Store) -> FileRecord:
    if version.checkpoint_id is not None:
        return store.checkpoints.get(version.checkpoint_id).file
    if version.version == 1:
        return model.files["checkpoint"]
    raise NotFound(
        f"the checkpoint of version {version.version} is gone, and its parameters with it; ask "
        "for another version"
    )
