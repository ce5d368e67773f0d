"""Parameters lie one after the other, in rows that every thread gets a share of."""

from __future__ import annotations

from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.training.optimizer.layout import ALIGNMENT, MAX_WIDTH, lay_out
from service.training.optimizer.options import OptimizerOptions

shapes = st.lists(st.integers(1, 300), max_size=3).map(tuple)


@given(
    parameters=st.dictionaries(st.sampled_from("abcdefgh"), shapes, max_size=8),
    threads=st.integers(1, 5),
)
def test_no_two_parameters_share_an_element_and_rows_treat_all_alike(
    parameters: dict[str, tuple[int, ...]], threads: int
) -> None:
    options = OptimizerOptions(weight_decay=0.1, rate_factors={"[abc]": 0.5, "d": 2.0})
    layout = lay_out(parameters, options, threads=threads)
    assert len(layout.rate_factors) == len(layout.decays) == layout.rows
    stretches = []
    for name, shape in parameters.items():
        start, stop = layout.starts[name], layout.starts[name] + prod(shape)
        assert start % ALIGNMENT == 0
        stretches.append((start, stop))
        for row in {start // layout.width, (stop - 1) // layout.width}:
            assert layout.rate_factors[row] == options.rate_factor(name)
            assert layout.decays[row] == options.decay(name, len(shape))
    ends = [0, *(stop for _, stop in sorted(stretches))]
    starts = [*(start for start, _ in sorted(stretches)), layout.rows * layout.width]
    assert all(end <= start for end, start in zip(ends, starts, strict=True))


@pytest.mark.parametrize(("size", "threads"), [(670_000, 2), (670_000, 4), (40_000, 2)])
def test_every_thread_gets_as_many_rows_as_the_others(size: int, threads: int) -> None:
    layout = lay_out({"w": (size,)}, OptimizerOptions(), threads=threads)
    assert layout.rows % threads == 0
    assert layout.width <= MAX_WIDTH
    assert layout.rows * layout.width < 1.02 * size


def test_a_small_model_is_one_row_that_is_hardly_larger() -> None:
    layout = lay_out({"w": (32, 64), "b": (64,), "c": (3,)}, OptimizerOptions(), threads=4)
    assert (layout.rows, layout.width) == (1, 32 * 64 + 64 + 16)


def test_a_model_without_parameters_has_no_rows() -> None:
    assert lay_out({}, OptimizerOptions(), threads=2).rows == 0
