"""Rules of operators that choose by index."""

from __future__ import annotations

import numpy as np
import pytest
from gradients import FEW, Array, check, one_node
from hypothesis import given, settings
from hypothesis import strategies as st

from service.training.graph.step import differentiate


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape)


def drawn(low: int, high: int, *shape: int) -> Array:
    return np.random.default_rng(1).integers(low, high, shape)


@given(st.data())
@settings(max_examples=30, **FEW)
def test_gathered_slices_are_added_where_they_came_from(data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.integers(2, 4), min_size=1, max_size=3))
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    if data.draw(st.booleans()):
        shape[axis] = 70  # More rows than one product takes.
    size = shape[axis]
    index_shape = data.draw(st.sampled_from([(), (1,), (3,), (2, 3)]))
    low = -size if data.draw(st.booleans()) else 0
    x, index = normal(*shape), np.array(drawn(low, size, *index_shape), np.int64)
    constant = data.draw(st.booleans())
    symbolic = data.draw(st.sampled_from([(), (0,), (0, 1, 2)]))
    model = one_node("Gather", [x, index], constants=[1][:constant], symbolic=symbolic, axis=axis)
    check(model, {"x0": x} if constant else {"x0": x, "x1": index})


@pytest.mark.parametrize("index", [[0, 2], [3, 1], [1, 1, 3], [2, 3, 1]])
def test_constant_places_that_are_or_are_not_distinct(index: list[int]) -> None:
    x = normal(2, 4, 3)
    model = one_node("Gather", [x, np.array(index)], constants=[1], axis=1)
    check(model, {"x0": x})


def test_single_numbers_chosen_along_an_axis() -> None:
    x, index = normal(3, 4), drawn(-4, 4, 3, 5)
    check(one_node("GatherElements", [x, index], axis=1), {"x0": x, "x1": index})


@pytest.mark.parametrize(("batch_dims", "index"), [(0, (5, 2)), (0, (2, 2, 3)), (1, (2, 5, 1))])
def test_slices_chosen_by_index_vectors(batch_dims: int, index: tuple[int, ...]) -> None:
    x, places = normal(2, 3, 4), drawn(0, 2, *index)
    check(one_node("GatherND", [x, places], batch_dims=batch_dims), {"x0": x, "x1": places})


@pytest.mark.parametrize("reduction", ["none", "add"])
def test_scattered_numbers_get_what_is_there(reduction: str) -> None:
    x, updates = normal(3, 5), normal(3, 3, seed=1)
    index = np.array([[0, 3, 1], [4, 2, 0], [1, 0, 2]])
    model = one_node("ScatterElements", [x, index, updates], axis=1, reduction=reduction)
    check(model, {"x0": x, "x1": index, "x2": updates})
    places, rows = np.array([[2], [0]]), normal(2, 5, seed=2)
    model = one_node("ScatterND", [x, places, rows], reduction=reduction)
    check(model, {"x0": x, "x1": places, "x2": rows})


def test_the_largest_get_the_gradient() -> None:
    x = normal(3, 5)
    model = one_node("TopK", [x, np.array([2])], constants=[1], outputs=2, axis=1)
    check(model, {"x0": x})


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_what_was_kept_gets_the_gradient(axis: int | None) -> None:
    x = normal(3, 4)
    kept = np.array([True, False, True])
    attributes = {} if axis is None else {"axis": axis}
    check(one_node("Compress", [x, kept], **attributes), {"x0": x, "x1": kept})


@pytest.mark.parametrize("op_type", ["Gather", "GatherND"])
def test_rows_are_not_added_by_scatter_nd_which_loses_sums_between_threads(op_type: str) -> None:
    x = normal(70, 3).astype(np.float32)
    model = one_node(op_type, [x, np.array([[3], [69], [3]])])
    step = differentiate(model, loss="y0", parameters=["x0"])
    assert "ScatterElements" in {node.op_type for node in step.graph.node}
    assert "ScatterND" not in {node.op_type for node in step.graph.node}
