"""Rules of Gemm, MatMul and Einsum."""

from __future__ import annotations

import numpy as np
import pytest
from gradients import FEW, Array, check, one_node
from hypothesis import given, settings
from hypothesis import strategies as st


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape)


@pytest.mark.parametrize("ta", [0, 1])
@pytest.mark.parametrize("tb", [0, 1])
@pytest.mark.parametrize("bias", [(), (5,), (4, 1), (1, 5), (1,), None])
def test_gemm_in_all_its_forms(ta: int, tb: int, bias: tuple[int, ...] | None) -> None:
    a = normal(*((3, 4) if ta else (4, 3)), seed=1)
    b = normal(*((5, 3) if tb else (3, 5)), seed=2)
    inputs = [a, b] if bias is None else [a, b, normal(*bias, seed=3)]
    model = one_node("Gemm", inputs, transA=ta, transB=tb, alpha=0.7, beta=1.3)
    check(model, {f"x{i}": v for i, v in enumerate(inputs)})


@given(st.data())
@settings(max_examples=30, **FEW)
def test_matmul_broadcasts_leading_axes_and_takes_vectors(data: st.DataObject) -> None:
    lead = data.draw(st.lists(st.integers(1, 3), max_size=2))
    kept = [n if data.draw(st.booleans()) else 1 for n in lead]
    a = normal(*lead, 2, 3, seed=1) if data.draw(st.booleans()) else normal(3, seed=1)
    right = data.draw(st.sampled_from([(3,), (3, 4), (*kept, 3, 2)]))
    b = normal(*right, seed=2)
    symbolic = data.draw(st.sampled_from([(), (0,), (0, 1, 2, 3)]))
    check(one_node("MatMul", [a, b], symbolic=symbolic), {"x0": a, "x1": b})


EQUATIONS = {
    "ij,jk->ik": [(2, 3), (3, 4)],
    "bij,bjk->bik": [(2, 3, 4), (2, 4, 2)],
    "ij,jk": [(2, 3), (3, 4)],
    "bhid,bhjd->bhij": [(2, 2, 3, 4), (2, 2, 2, 4)],
    "...ij,...jk->...ik": [(2, 3, 4), (2, 4, 2)],
    "...ij,jk->...ik": [(2, 3, 4), (4, 2)],
    "ij->i": [(2, 3)],
    "ij->ji": [(2, 3)],
    "i,j->ij": [(2,), (3,)],
    "ij,ij,j->": [(2, 3), (2, 3), (3,)],
    "ab,cd->ad": [(2, 3), (4, 2)],
}


@pytest.mark.parametrize("equation", EQUATIONS)
@pytest.mark.parametrize("symbolic", [(), (0,)])
def test_einsum_by_every_operand(equation: str, symbolic: tuple[int, ...]) -> None:
    inputs = [normal(*shape, seed=i) for i, shape in enumerate(EQUATIONS[equation])]
    model = one_node("Einsum", inputs, equation=equation, symbolic=symbolic)
    check(model, {f"x{i}": v for i, v in enumerate(inputs)})
