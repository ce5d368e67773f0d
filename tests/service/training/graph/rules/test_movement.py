"""Rules of operators that move numbers."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from gradients import FEW, LOSS, Array, check, one_node, weighted
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper

from service.training.graph.step import differentiate


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape)


def ints(*values: int) -> Array:
    return np.array(values, np.int64)


CASES = [
    ("Reshape", [ints(4, -1)], {}),
    ("Reshape", [ints(0, -1)], {}),
    ("Flatten", [], {"axis": 2}),
    ("Unsqueeze", [ints(0, -1)], {}),
    ("Transpose", [], {"perm": [2, 0, 1]}),
    ("Transpose", [], {}),
    ("Expand", [ints(2, 2, 3, 4)], {}),
    ("Expand", [ints(1, 1)], {}),
    ("Tile", [ints(2, 1, 3)], {}),
    ("Trilu", [], {"upper": 0}),
    ("Trilu", [ints(1).reshape(())], {"upper": 1}),
]


@pytest.mark.parametrize(("op_type", "others", "attributes"), CASES)
@pytest.mark.parametrize("symbolic", [(), (0,), (0, 1)])
def test_numbers_go_back_to_their_places(
    op_type: str, others: list[Array], attributes: dict[str, object], symbolic: tuple[int, ...]
) -> None:
    x = normal(2, 3, 4)
    constants = range(1, 1 + len(others))
    model = one_node(op_type, [x, *others], constants=constants, symbolic=symbolic, **attributes)
    check(model, {"x0": x})


def test_squeeze_of_given_and_of_all_axes() -> None:
    x = normal(2, 1, 3, 1)
    check(one_node("Squeeze", [x, ints(-1)], constants=[1]), {"x0": x})
    check(one_node("Squeeze", [x]), {"x0": x})


@given(st.data())
@settings(max_examples=50, **FEW)
def test_slices_with_any_bounds_and_steps(data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    axes = data.draw(st.lists(st.integers(0, len(shape) - 1), min_size=1, unique=True))
    steps = [data.draw(st.sampled_from([1, 1, 2, 3, -1, -2])) for _ in axes]
    bound = st.integers(-7, 7)
    starts = [data.draw(bound) for _ in axes]
    ends = [
        data.draw(st.one_of(bound, st.just(2**31 - 1 if step > 0 else -(2**31)))) for step in steps
    ]
    x = normal(*shape)
    others = [ints(*starts), ints(*ends), ints(*axes), ints(*steps)]
    empty = np.empty(shape)[_as_index(axes, starts, ends, steps)].size == 0
    symbolic = data.draw(st.sampled_from([()] if empty else [(), (0,), (0, 1, 2)]))
    computed = not empty and data.draw(st.booleans())
    constants = [3, 4] if computed else [1, 2, 3, 4]
    model = one_node("Slice", [x, *others], constants=constants, symbolic=symbolic)
    feeds = {"x0": x}
    check(model, feeds | ({"x1": others[0], "x2": others[1]} if computed else {}))


def _as_index(
    axes: list[int], starts: list[int], ends: list[int], steps: list[int]
) -> tuple[slice, ...]:
    index = [slice(None)] * (max(axes) + 1)
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        index[axis] = slice(start, None if end < -100 else end, step)
    return tuple(index)


@pytest.mark.parametrize("symbolic", [(), (0,), (0, 1)])
def test_concat_gives_each_input_its_part(symbolic: tuple[int, ...]) -> None:
    inputs = [normal(2, n, 3, seed=n) for n in (1, 2, 3)]
    model = one_node("Concat", inputs, symbolic=symbolic, axis=-2)
    check(model, {f"x{i}": v for i, v in enumerate(inputs)})


@pytest.mark.parametrize("lengths", [ints(1, 3, 2), None])
def test_split_joins_the_parts(lengths: Array | None) -> None:
    x = normal(2, 6)
    others = [] if lengths is None else [lengths]
    attributes = {"num_outputs": 3} if lengths is None else {}
    model = one_node(
        "Split", [x, *others], constants=[1][: len(others)], outputs=3, axis=1, **attributes
    )
    check(model, {"x0": x})
    del model.graph.output[1:]
    check(model, {"x0": x})


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge", "wrap"])
@pytest.mark.parametrize("axes", [None, ints(-1, 1)])
def test_pads_in_every_mode(mode: str, axes: Array | None) -> None:
    x = normal(2, 3, 4)
    pads = ints(0, 1, 2, 0, 2, 3) if axes is None else ints(2, 1, 3, 2)
    others = [pads, None, axes] if axes is not None else [pads]
    constants = [i + 1 for i, v in enumerate(others) if v is not None]
    opset = 19 if mode == "wrap" else 18
    check(one_node("Pad", [x, *others], constants=constants, mode=mode, opset=opset), {"x0": x})


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_depth_to_space_in_both_orders(mode: str) -> None:
    x = normal(2, 8, 2, 3)
    check(one_node("DepthToSpace", [x], blocksize=2, mode=mode, symbolic=(0,)), {"x0": x})


def test_space_to_depth() -> None:
    x = normal(2, 3, 4, 6)
    check(one_node("SpaceToDepth", [x], blocksize=2), {"x0": x})


def test_reverse_sequence_turns_each_row_back() -> None:
    x, lengths = normal(4, 3, 2), ints(1, 4, 2)
    model = one_node("ReverseSequence", [x, lengths], batch_axis=1, time_axis=0)
    check(model, {"x0": x, "x1": lengths})


def cut(*places: int) -> onnx.ModelProto:
    """x0 (batch, 6, 3) cut along axis 1 at these places, and each part's squares' sum."""
    names = [f"part{begin}" for begin in places[:-1]]
    nodes = [
        helper.make_node("Slice", ["x0", f"at{begin}", f"at{end}", "axis"], [name], name=name)
        for name, begin, end in zip(names, places, places[1:], strict=False)
    ]
    nodes += [
        helper.make_node("ReduceSumSquare", [name], [f"{name}.sum"], name=f"{name}.sum")
        for name in names
    ]
    numbers = {**{f"at{place}": ints(place) for place in places}, "axis": ints(1)}
    graph = helper.make_graph(
        nodes,
        "cut",
        [helper.make_tensor_value_info("x0", onnx.TensorProto.DOUBLE, ["batch", 6, 3])],
        [helper.make_empty_tensor_value_info(f"{name}.sum") for name in names],
        [numpy_helper.from_array(value, name) for name, value in numbers.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


@pytest.mark.parametrize(
    ("places", "operator"), [((0, 1, 4, 6), "Concat"), ((1, 4, 6), "Pad"), ((0, 2, 5), "Pad")]
)
def test_slices_that_fill_an_axis_are_put_back_one_after_the_other(
    places: tuple[int, ...], operator: str
) -> None:
    model, feeds = cut(*places), {"x0": normal(2, 6, 3)}
    check(model, feeds)
    step = differentiate(weighted(model, feeds), loss=LOSS, parameters=["x0"])
    assert {"Concat", "Pad"} & {node.op_type for node in step.graph.node} == {operator}
