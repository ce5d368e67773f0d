"""The gradients that PyTorch gave, at kinks and ties too. Written by make_pytorch_gradients.py."""

from __future__ import annotations

import numpy as np
import pytest
from gradients import one_node, run
from onnx import helper, numpy_helper
from pytorch_cases import CASES, STORED, weights

from service.training.graph.step import differentiate, gradient_of


@pytest.mark.parametrize("name", CASES)
def test_a_gradient_is_that_of_pytorch(name: str) -> None:
    case = CASES[name]
    feeds = {
        f"x{i}": np.asarray(value)
        for i, value in enumerate(case.inputs)
        if value is not None and i not in case.constants
    }
    model = one_node(
        case.op_type,
        [None if v is None else np.asarray(v) for v in case.inputs],
        outputs=case.outputs,
        constants=case.constants,
        opset=20,
        **case.attributes,
    )
    plain = run(model, feeds)
    with np.load(STORED) as stored:
        expected = {key.split(".")[1]: stored[key] for key in stored if key.split(".")[0] == name}
    np.testing.assert_allclose(plain["y0"], expected.pop("y"), rtol=1e-4, atol=1e-5)
    total = ["add_up"]
    for output in plain:
        weight = numpy_helper.from_array(weights(plain[output].shape), f"{output}_w")
        model.graph.initializer.append(weight)
        model.graph.node.append(helper.make_node("Mul", [output, f"{output}_w"], [f"{output}_m"]))
        model.graph.node.append(
            helper.make_node("ReduceSum", [f"{output}_m"], [f"{output}_s"], keepdims=0)
        )
    model.graph.node.append(helper.make_node("Sum", [f"{output}_s" for output in plain], total))
    by = [f"x{i}" for i in expected]
    found = run(differentiate(model, loss=total[0], parameters=by), feeds)
    for i, wish in expected.items():
        result = found[gradient_of(f"x{i}")]
        bound = 1e-4 * max(1.0, float(np.abs(wish).max()))
        np.testing.assert_allclose(result, wish, rtol=1e-3, atol=bound, err_msg=f"by x{i}")
