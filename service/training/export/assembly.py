"""Assembles inference models: the frozen part, the trained one, and the other outputs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import onnx

from service.training.export.join import join
from service.training.export.remainder import attach
from service.training.protocol.messages.shared import Artifacts


def assemble(path: Path, artifacts: Artifacts, metadata: Mapping[str, str]) -> None:
    """Complete the trained part's model at `path` to the whole model, with this metadata.

    The author's own entries stay. Raises ArtifactsUnreadable if the parts do not fit together.
    """
    model = whole(_load(path), artifacts)
    kept = {entry.key: entry.value for entry in model.metadata_props}
    onnx.helper.set_model_props(model, kept | dict(metadata))
    onnx.save_model(model, path)


def whole(trained: onnx.ModelProto, artifacts: Artifacts) -> onnx.ModelProto:
    """The frozen part followed by the trained one, with the other outputs."""
    if artifacts.prefix_model is not None:
        trained = join(_load(artifacts.prefix_model), trained)
    if artifacts.remainder_model is not None:
        trained = attach(trained, _load(artifacts.remainder_model))
    return trained


def _load(path: Path | str) -> onnx.ModelProto:
    return onnx.load_model(path, load_external_data=False)
