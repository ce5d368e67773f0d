"""Networks whose step in the runtime's own layout is compared with the one in ONNX's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from gradients import Array
from onnx import TensorProto, helper, numpy_helper

from service.training.engines.runtime import channel_block, open_session
from service.training.graph.blocks.layout import DOMAIN, BlockLayout
from service.training.graph.step import StepModel, build_step
from service.training.loss import LOSS_SCALE, Loss

BLOCK = channel_block()
ROWS = 4
LAYOUT = BlockLayout(BLOCK or 1, ROWS)


class Network:
    """Nodes one after the other on `x`; each reads the last one's result, unless told otherwise."""

    def __init__(self, *shape: int) -> None:
        self._rng = np.random.default_rng(0)
        self._shape = shape
        self._nodes: list[onnx.NodeProto] = []
        self._weights: list[onnx.TensorProto] = []
        self._constants: list[onnx.TensorProto] = []
        self.last = "x"

    def weight(self, *shape: int, low: float | None = None) -> str:
        name = f"w{len(self._weights)}"
        value = (
            self._rng.normal(size=shape) * 0.3
            if low is None
            else self._rng.uniform(low, 1.5, shape)
        )
        self._weights.append(numpy_helper.from_array(value.astype(np.float32), name))
        return name

    def constant(self, value: Array) -> str:
        name = f"c{len(self._constants)}"
        self._constants.append(numpy_helper.from_array(value, name))
        return name

    def add(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        read = inputs or (self.last,)
        self.last = f"t{len(self._nodes)}"
        self._nodes.append(
            helper.make_node(op_type, read, [self.last], name=self.last, **attributes)
        )
        return self.last

    def conv(
        self, outs: int, ins: int, *kernel: int, source: str = "", group: int = 1, **given: Any
    ) -> str:
        weight = self.weight(outs, ins // group, *kernel)
        bias = self.weight(outs)
        return self.add("Conv", source or self.last, weight, bias, group=group, **given)

    def norm(self, channels: int) -> str:
        """Two axes train, the statistics do not."""
        mean, variance = (self._rng.uniform(0.5, 2, channels).astype(np.float32) for _ in range(2))
        affine = self.weight(channels), self.weight(channels)
        statistics = self.constant(mean), self.constant(variance)
        return self.add("BatchNormalization", self.last, *affine, *statistics)

    def model(self, opset: int = 18) -> onnx.ModelProto:
        graph = helper.make_graph(
            self._nodes,
            "network",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", *self._shape])],
            [helper.make_tensor_value_info(self.last, TensorProto.FLOAT, None)],
            [*self._weights, *self._constants],
        )
        return helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10
        )

    def check(
        self, *, rows: int = ROWS, blocked: bool = True, layout: BlockLayout = LAYOUT
    ) -> StepModel:
        """Compare loss and gradients in both layouts."""
        model, names = self.model(), [weight.name for weight in self._weights]
        plain = build_step(model, loss=Loss("mse"), parameters=names)
        step = build_step(model, loss=Loss("mse"), parameters=names, layout=layout)
        assert blocked == any(node.domain == DOMAIN for node in step.model.graph.node)
        # An axis that may have been repeated is looked for in each run, and summed.
        assert not any(node.op_type == "NonZero" for node in step.model.graph.node)
        feeds = self._feeds(plain, rows)
        expected, found = results(plain, feeds), results(step, feeds)
        assert found.keys() >= expected.keys()
        for name, value in expected.items():
            limit = 2e-5 * float(np.abs(value).max(initial=0)) + 1e-6
            given = found[name].reshape(value.shape)
            np.testing.assert_allclose(given, value, rtol=0, atol=limit, err_msg=name)
        return step

    def _feeds(self, step: StepModel, rows: int) -> dict[str, Array]:
        feeds = {weight.name: numpy_helper.to_array(weight) for weight in self._weights}
        for value in step.model.graph.input:
            if value.name in feeds:
                continue
            dims = value.type.tensor_type.shape.dim
            shape = [dim.dim_value or rows for dim in dims]
            feeds[value.name] = self._rng.normal(size=shape).astype(np.float32)
            if value.name == LOSS_SCALE:
                feeds[value.name] = np.full([1] * len(dims), 1 / rows, np.float32)
        return feeds


def results(step: StepModel, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """Loss and gradients, by name."""
    known = dict(feeds)
    once = step.once
    for model in [step.model] if once is None else [once.before, step.model, once.after]:
        session = open_session(model.SerializeToString(), threads=1)
        read = {value.name: known[value.name] for value in session.get_inputs()}
        names = [output.name for output in session.get_outputs()]
        known.update(zip(names, session.run(None, read), strict=True))
    return {
        name: value for name, value in known.items() if name.startswith(("hone.loss", "hone.gr"))
    }
