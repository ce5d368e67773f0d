"""What the runner asks of an engine, and the engines that it can ask."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import onnx
from numpy.typing import NDArray

from service.training.engines.opening import open_engine
from service.training.engines.runtime import onnxruntime
from service.training.forward import trainable as choice
from service.training.forward.load import load
from service.training.forward.normalize import normalize
from service.training.optimizer.options import OptimizerOptions
from service.training.preparation.prepare import make_artifacts
from service.training.preparation.step_models import make_step_models
from service.training.protocol.messages import preparation

Array = NDArray[np.generic]
Prepare = Callable[[Path, preparation.Prepare], preparation.Prepared]


class Trainer(Protocol):
    """A model in training by plain SGD. Inputs are by name."""

    def step(self, inputs: dict[str, Array], target: Array, learning_rate: float) -> None:
        """One step."""

    def outputs(self, inputs: dict[str, Array]) -> Array:
        """What the model would infer now."""


class Prepared:
    """A prepared model in training; its export is run by another session.

    If only named parameters train, the frozen part is cut off and runs in a session of its own.
    """

    def __init__(self, prepare: Prepare, path: Path, *, threads: int, **wanted: Any) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="hone-zoo-")
        wanted["divide"] = wanted["trainable"] is not None
        order = preparation.Prepare(
            str(path), "forward", self._folder.name, optimizer="sgd", **wanted
        )
        self._made = prepare(path, order)
        prefix = self._made.artifacts.prefix_model
        self._prefix = None if prefix is None else _session(onnx.load_model(prefix))
        self._names = [value.name for value in self._made.signature.inputs]
        self._engine = open_engine(
            self._made.artifacts,
            output=self._made.output,
            threads=threads,
            optimizer_options=OptimizerOptions("sgd"),
        )

    def step(self, inputs: dict[str, Array], target: Array, learning_rate: float) -> None:
        rows = [inputs[name] for name in self._names]
        if self._prefix is not None:
            rows = self._prefix.run(None, dict(zip(self._names, rows, strict=True)))
        self._engine.train_batch(rows, target)
        self._engine.step(learning_rate)

    def outputs(self, inputs: dict[str, Array]) -> Array:
        path = Path(self._folder.name) / "exported.onnx"
        self._engine.export(path)
        return _run(onnx.load_model(path), inputs)


class Gradients:
    """The differentiated graph alone, in one plain session; SGD in numpy."""

    def __init__(
        self, path: Path, *, loss: str, output: str | None, trainable: Sequence[str] | None
    ) -> None:
        from service.training.graph.passes.prepare import prepare
        from service.training.graph.step import build_step
        from service.training.loss import LOSS_SCALE, Loss

        graph = normalize(load(path), [])
        names = choice.select(graph, trainable)
        step = build_step(graph.model, loss=Loss(loss), parameters=names, output=output)
        self._model = prepare(graph.model, parameters=names)
        tensors = {t.name: t for t in self._model.graph.initializer}
        self._values = {n: onnx.numpy_helper.to_array(tensors[n]).copy() for n in names}
        self._target, self._scale, self._scale_rank = step.target, LOSS_SCALE, step.scale_rank
        self._session = _session(step.model)

    def step(self, inputs: dict[str, Array], target: Array, learning_rate: float) -> None:
        scale = np.full((1,) * self._scale_rank, 1 / len(target), np.float32)
        feeds = {**inputs, **self._values, str(self._target): target, self._scale: scale}
        read = {value.name for value in self._session.get_inputs()}
        feeds = {name: array for name, array in feeds.items() if name in read}
        _, *gradients = self._session.run(None, feeds)
        for name, gradient in zip(self._values, gradients, strict=True):
            self._values[name] -= np.float32(learning_rate) * gradient

    def outputs(self, inputs: dict[str, Array]) -> Array:
        model = _copy(self._model)
        for tensor in model.graph.initializer:
            if tensor.name in self._values:
                tensor.CopyFrom(
                    onnx.numpy_helper.from_array(self._values[tensor.name], tensor.name)
                )
        return _run(model, inputs)


TRAINERS: dict[str, Callable[..., Trainer]] = {
    "sessions": partial(Prepared, make_step_models, threads=2),
    "ort_training": partial(Prepared, make_artifacts, threads=1),
    "gradients": Gradients,
}


def _copy(model: onnx.ModelProto) -> onnx.ModelProto:
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    return copy


def _run(model: onnx.ModelProto, inputs: dict[str, Array]) -> Array:
    session = _session(model)
    read = {value.name for value in session.get_inputs()}
    return session.run(None, {name: array for name, array in inputs.items() if name in read})[0]


def _session(model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
