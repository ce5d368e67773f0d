"""The whole inference model: what was trained, with the parts that were kept from training."""

from __future__ import annotations

from pathlib import Path

import onnx

from service.training.export.join import join
from service.training.export.remainder import attach
from service.training.protocol.messages.shared import Artifacts


def assemble(trained: Path, artifacts: Artifacts) -> onnx.ModelProto:
    """The model that the engine exported, behind the frozen part and with the other outputs.

    Raises ArtifactsUnreadable if the parts do not fit together.
    """
    model = _load(trained)
    if artifacts.prefix_model is not None:
        model = join(_load(artifacts.prefix_model), model)
    if artifacts.remainder_model is not None:
        model = attach(model, _load(artifacts.remainder_model))
    return model


def _load(path: Path | str) -> onnx.ModelProto:
    return onnx.load_model(path, load_external_data=False)
