"""The model's ONNX file: what trains in it, and the same file with other parameters."""

from __future__ import annotations

import os
from fnmatch import fnmatchcase
from math import prod
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper
from safetensors import SafetensorError
from safetensors.numpy import load_file

from honed_flower.updates import Tensors

STATISTICS = (3, 4)
"""Inputs of BatchNormalization that are running mean and variance, which never train."""


class Model:
    """A forward model, and which of its initializers train.

    trainable: globs over initializers, empty for every float32 one of more than one number that is
    not a running statistic. parameters: a file of a daemon's `GET …/parameters`, which defines what
    trains there, and the starting values; None for the model's own values. Raises ValueError.
    """

    def __init__(self, path: Path, *, trainable: list[str], parameters: Path | None) -> None:
        self._path = path
        self._model = self._read()
        self._initializers = {tensor.name: tensor for tensor in self._model.graph.initializer}
        self.parameters = self._chosen(trainable) if parameters is None else self._given(parameters)
        for name, values in self.parameters.items():
            if not np.isfinite(values).all():
                raise ValueError(f"{parameters or path}: {name!r} holds what is no finite number")

    def save(self, parameters: Tensors, path: Path) -> None:
        """Write the file with these parameters, atomically."""
        for name, values in parameters.items():
            tensor = numpy_helper.from_array(np.ascontiguousarray(values, np.float32), name)
            self._initializers[name].CopyFrom(tensor)
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
        onnx.save(self._model, partial)
        partial.replace(path)

    def _read(self) -> onnx.ModelProto:
        try:
            model = onnx.load(self._path, load_external_data=False)
            onnx.checker.check_model(model)
        except Exception as error:  # protobuf's, the checker's, the file system's
            raise ValueError(f"cannot read the model {self._path}: {error}") from error
        return model

    def _chosen(self, trainable: list[str]) -> Tensors:
        statistics = {
            name
            for node in self._model.graph.node
            if node.op_type == "BatchNormalization"
            for name in [node.input[slot] for slot in STATISTICS]
        }
        weights = [
            name
            for name, tensor in self._initializers.items()
            if tensor.data_type == TensorProto.FLOAT
            and prod(tensor.dims) > 1
            and name not in statistics
        ]
        if not weights:
            raise ValueError(f"{self._path} has no float32 initializers that could train")
        chosen: set[str] = set()
        for pattern in trainable or ["*"]:
            if not (fitting := [name for name in weights if fnmatchcase(name, pattern)]):
                raise ValueError(
                    f"trainable: {pattern!r} fits no weight; the model has {', '.join(weights)}"
                )
            chosen.update(fitting)
        return {name: numpy_helper.to_array(self._initializers[name]) for name in sorted(chosen)}

    def _given(self, path: Path) -> Tensors:
        try:
            parameters = load_file(path)
        except (OSError, SafetensorError) as error:
            raise ValueError(f"cannot read the parameters {path}: {error}") from error
        for name, values in parameters.items():
            if name not in self._initializers:
                kind = ", an adapter: Flower takes models without" if ".lora_" in name else ""
                raise ValueError(f"{path} has {name!r}, which {self._path} has not{kind}")
            if values.shape != tuple(self._initializers[name].dims) or values.dtype != np.float32:
                raise ValueError(
                    f"{path} has {name!r} as {values.dtype} {list(values.shape)}, {self._path} as "
                    f"float32 {list(self._initializers[name].dims)}"
                )
        return dict(sorted(parameters.items()))
