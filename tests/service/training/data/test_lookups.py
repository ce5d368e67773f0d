"""Which samples ask a table for rows that it has not, by whatever way their ids reach it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from embeddings import LENGTH, ROWS, embedding_model
from onnx import helper, numpy_helper

from service.training.data.lookups import Lookups

Open = Callable[..., Lookups]


def constant(name: str, values: object) -> onnx.TensorProto:
    return numpy_helper.from_array(np.array(values, np.int64), name)


SLICE = (
    [helper.make_node("Slice", ["x", "from", "to", "axes"], ["first"], name="slice")],
    [constant("from", [0]), constant("to", [3]), constant("axes", [1])],
)
SHIFT = (
    [helper.make_node("Add", ["x", "one"], ["shifted"], name="shift")],
    [constant("one", 1)],
)


@pytest.fixture
def lookups(tmp_path: Path) -> Open:
    def lookups(model: bytes, names: tuple[str, ...] = ("x",)) -> Lookups:
        path = tmp_path / "model.onnx"
        path.write_bytes(model)
        return Lookups([path], names)

    return lookups


def rows(*wrong: tuple[int, int, int]) -> np.ndarray:
    """Eight samples; wrong: (sample, position, id)."""
    made = np.random.default_rng(0).integers(0, ROWS - 1, (8, LENGTH))
    for sample, position, value in wrong:
        made[sample, position] = value
    return made


def test_ids_beyond_the_table_are_named(lookups: Open) -> None:
    found = lookups(embedding_model()).complaints([rows((2, 6, 30), (5, 0, -31), (6, 1, -30))])

    assert found.keys() == {2, 5}
    assert "row 30 of a table that has 30 (node 'embed')" in found[2]
    assert "from 0 to 29" in found[2]


def test_only_the_positions_that_are_looked_up_count(lookups: Open) -> None:
    model = embedding_model(*SLICE, ids="first")

    found = lookups(model).complaints([rows((1, 2, 99), (4, 3, 99))])

    assert found.keys() == {1}


def test_what_is_done_to_the_ids_before_counts(lookups: Open) -> None:
    model = embedding_model(*SHIFT, ids="shifted")

    found = lookups(model).complaints([rows((3, 0, ROWS - 1))])

    assert found.keys() == {3}
    assert "row 30" in found[3]


def test_annotations_for_quantization_are_no_obstacle(lookups: Open) -> None:
    model = onnx.load_from_string(embedding_model(*SHIFT, ids="shifted"))
    model.graph.quantization_annotation.add(tensor_name="embedded")

    found = lookups(model.SerializeToString()).complaints([rows((3, 0, ROWS - 1))])

    assert found.keys() == {3}


def test_a_model_without_tables_has_no_complaints(lookups: Open) -> None:
    model = embedding_model([helper.make_node("Identity", ["x"], ["same"])], ids="same")

    assert not lookups(model, ("another",))
    assert lookups(model)
