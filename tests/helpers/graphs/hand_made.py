"""Small forward models made node by node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from graph_parts import normal
from onnx import TensorProto, helper, numpy_helper


@dataclass(frozen=True)
class Graphs:
    """Makes forward models with input `x` and output `y`."""

    opset: int = 17

    def model(
        self,
        nodes: Sequence[onnx.NodeProto],
        weights: dict[str, Any],
        *,
        x: Sequence[int | str] = ("batch", 6),
        y: Sequence[int | str] = ("batch", 3),
        x_type: int = TensorProto.FLOAT,
        opset: int | None = None,
        domains: Sequence[str] = (),
        functions: Sequence[onnx.FunctionProto] = (),
    ) -> onnx.ModelProto:
        """A model around the nodes; weights: name → array."""
        graph = helper.make_graph(
            list(nodes),
            "graph",
            [helper.make_tensor_value_info("x", x_type, list(x))],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, list(y))],
            [numpy_helper.from_array(np.asarray(value), name) for name, value in weights.items()],
        )
        imports = [helper.make_opsetid("", opset or self.opset)]
        imports += [helper.make_opsetid(domain, 1) for domain in domains]
        return helper.make_model(
            graph, opset_imports=imports, ir_version=8, functions=list(functions)
        )

    def around(
        self, *nodes: onnx.NodeProto, size: int = 5, out: int | None = None, **weights: Any
    ) -> onnx.ModelProto:
        """x (batch, 6) → Gemm w, b → h (batch, size) → the nodes → g (batch, out) → Gemm v → y."""
        out = out or size
        first = helper.make_node("Gemm", ["x", "w", "b"], ["h"], name="first")
        last = helper.make_node("Gemm", ["g", "v"], ["y"], name="last")
        own = {"w": normal(6, size), "b": normal(size, seed=1), "v": normal(out, 3, seed=2)}
        opset = weights.pop("opset", None)
        domains = weights.pop("domains", ())
        return self.model([first, *nodes, last], {**own, **weights}, opset=opset, domains=domains)
