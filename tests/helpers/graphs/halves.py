"""A model that is cut in two, and what becomes of the halves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from graph_parts import normal
from onnx import numpy_helper

from service.training.forward import batch_axis, trial
from service.training.forward.load import load
from service.training.forward.normalize import normalize
from service.training.protocol.messages.preparation import Prepared


def run(model: Path | bytes, **feeds: np.ndarray) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"]).run(
        None, feeds
    )


def with_weights(source: Path, weights: dict[str, np.ndarray]) -> bytes:
    """The upload itself, in its inference form, with other weights."""
    graph = normalize(load(source), [])
    batch_axis.release(graph, [])
    for tensor in graph.proto.initializer:
        if tensor.name in weights:
            tensor.CopyFrom(numpy_helper.from_array(weights[tensor.name], tensor.name))
    return trial.inference_form(graph.model).SerializeToString()


class Halves:
    """A cut model: trained for some steps, then joined."""

    def __init__(self, prepared: Prepared, trainer: Any) -> None:
        assert prepared.artifacts.prefix_model is not None, prepared.notes
        self.prepared = prepared
        self.prefix = Path(prepared.artifacts.prefix_model)
        self.engine = trainer(prepared.artifacts)

    def train(self, target: np.ndarray, steps: int = 3, **inputs: np.ndarray) -> list[float]:
        features = run(self.prefix, **inputs)
        return [self.engine.step(*features, target, learning_rate=0.01) for _ in range(steps)]

    def weights(self) -> dict[str, np.ndarray]:
        """What training has moved, running statistics included."""
        return self.engine.parameters()

    def join(self, folder: Path) -> Path:
        self.engine.engine.export(folder / "joined.onnx")
        return folder / "joined.onnx"


def check(cut: Halves, model: onnx.ModelProto, folder: Path, rows: int = 5) -> None:
    """Train on random rows, join, and compare with the upload that has the same weights."""
    x = normal(rows, 6, seed=9)
    losses = cut.train(normal(rows, 3, seed=8), x=x)
    assert losses[-1] < losses[0]
    source = folder / "source.onnx"
    onnx.save(model, source)
    (expected,) = run(with_weights(source, cut.weights()), x=x)
    (found,) = run(cut.join(folder), x=x)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
