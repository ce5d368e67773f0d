"""A small model of windows of a recording, and recordings as apps send them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from math import prod

import httpx
import numpy as np
import onnx
from onnx import helper, numpy_helper
from support import Served, mlp, npz


def series_model(window: Sequence[int], label: Sequence[int], *, hidden: int = 32) -> bytes:
    """x (batch, *window) → y (batch, *label)."""
    model = onnx.load_from_string(mlp(prod(window), hidden, prod(label), inputs="flat"))
    graph, shape = model.graph, np.array([-1, *label])
    graph.node.insert(0, helper.make_node("Flatten", ["x"], ["flat"], name="flatten"))
    graph.node.append(helper.make_node("Reshape", ["logits", "shape"], ["y"], name="reshape"))
    graph.initializer.append(numpy_helper.from_array(shape, "shape"))
    for info, name, dims in ((graph.input[0], "x", window), (graph.output[0], "y", label)):
        value = helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["batch", *dims])
        info.CopyFrom(value)
    content: bytes = model.SerializeToString()
    return content


def send_rows(served: Served, name: str, rows: np.ndarray, form: str = "csv") -> httpx.Response:
    """Upload a recording of two channels, hum and temp, for training. rows: (n, 2)."""
    table = "\n".join(["hum,temp", *(f"{hum},{temp}" for hum, temp in rows.tolist())])
    body = {"csv": table, "json": json.dumps({"recording": rows.tolist()}), "npz": npz(x=rows)}
    types = {"csv": "text/csv", "json": "application/json", "npz": "application/x-npz"}
    return served.http.post(
        f"/v1/models/{name}/samples",
        content=body[form],
        params={"split": "train"},
        headers={"Content-Type": types[form]},
    )
