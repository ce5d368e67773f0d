"""What ONNX Runtime and onnx do once in a process, done before it forks.

A forked child that prepares a model then takes 25 ms of a processor instead of 50.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import msgspec
import numpy as np
import onnx
from onnx.helper import make_graph, make_model, make_node, make_opsetid, make_tensor_value_info
from onnx.numpy_helper import from_array

from service.training.engines.checkpoint import CheckpointHead
from service.training.preparation.prepare import prepare
from service.training.protocol.messages.preparation import Prepare
from service.training.protocol.messages.unions import Line

_FLOAT = onnx.TensorProto.FLOAT

with tempfile.TemporaryDirectory() as _folder:
    _graph = make_graph(
        [make_node("MatMul", ["x", "w"], ["logits"])],
        "first",
        [make_tensor_value_info("x", _FLOAT, ["batch", 2])],
        [make_tensor_value_info("logits", _FLOAT, ["batch", 2])],
        [from_array(np.eye(2, dtype=np.float32), "w")],
    )
    _source = Path(_folder, "model.onnx")
    onnx.save(make_model(_graph, opset_imports=[make_opsetid("", 17)], ir_version=8), _source)
    prepare(
        Prepare(
            source=str(_source),
            work_dir=_folder,
            form="forward",
            loss="cross_entropy",
            optimizer="adamw",
            engine="sessions",
        )
    )

for _kind in (Line, CheckpointHead):
    msgspec.json.Decoder(_kind)  # what it finds of the classes' fields stays with them

tempfile.tempdir = None  # each child finds its own
