from __future__ import annotations

import numpy as np
import pytest

from service.errors import InvalidInput
from service.preprocess import for_signature, parse
from service.preprocess.checks import WrongDescription
from service.preprocess.standardize import Standardize
from storage.records.signatures import Signature, TargetSpec, TensorSpec

ROWS = TensorSpec("x", "float32", (3,))
SERIES = TensorSpec("x", "float32", (20, 3))
SIGNATURE = Signature((ROWS,), TargetSpec("labels", "int64", (), 2))


def standardize(spec: TensorSpec = ROWS, **fields: object) -> Standardize:
    return Standardize.parse({"kind": "standardize", **fields}, spec)


@pytest.mark.parametrize("spec", [ROWS, SERIES])
def test_learned_in_chunks_it_is_what_numpy_says_of_all(spec: TensorSpec) -> None:
    rows = np.random.default_rng(0).normal(1e3, 5, (1000, *spec.shape)).astype(np.float32)
    rows[..., 2] = 7

    learned = standardize(spec).learn(np.array_split(rows, 7))
    made = learned.apply(rows).reshape(-1, 3)

    assert learned.is_learned
    np.testing.assert_allclose(made[:, :2].mean(axis=0), 0, atol=1e-3)
    np.testing.assert_allclose(made[:, :2].std(axis=0), 1, atol=1e-3)
    assert made[:, 2].tolist() == [0] * len(made)
    assert made.dtype == np.float32


def test_a_large_feature_that_never_varies_is_learned() -> None:
    rows = np.full((4, 1), 1e200)
    learned = standardize(TensorSpec("x", "float64", (1,))).learn([rows, rows])
    assert (learned.mean, learned.std) == ((1e200,), (1.0,))


def test_until_it_is_learned_nothing_changes() -> None:
    rows = np.ones((2, 3), np.float32)
    assert standardize().apply(rows) is rows


def test_given_numbers_are_taken() -> None:
    given = standardize(mean=[1, 2, 3], std=[1, 2, 0.5])
    assert given.apply(np.array([[2, 2, 2]], np.float32)).tolist() == [[1, 0, -2]]
    assert "learn_from" not in given.describe()


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"mean": [1, 2], "std": [1, 1, 1]}, "/mean"),
        ({"mean": [1, 2, 3]}, "/std"),
        ({"mean": [1, 2, 3], "std": [1, 0, 1]}, "/std"),
        ({"learn_from": 1}, "/learn_from"),
        ({"axis": 1}, "/axis"),
    ],
)
def test_a_wrong_description_names_its_place(fields: dict[str, object], pointer: str) -> None:
    with pytest.raises(WrongDescription) as refused:
        standardize(**fields)
    assert refused.value.pointer == pointer


def test_a_spec_names_its_inputs_once_and_its_kinds_right() -> None:
    for wrong, pointer, words in (
        ({"input": "y", "kind": "standardize"}, "/spec/preprocess/input", "no input 'y'"),
        ({"kind": "mel"}, "/spec/preprocess/kind", "there is no kind 'mel'; there are"),
        ({"axis": 1}, "/spec/preprocess/kind", "say its kind; there are"),
        ([{"kind": "standardize"}] * 2, "/spec/preprocess/1/input", "has a preprocessing already"),
    ):
        with pytest.raises(InvalidInput) as refused:
            parse(wrong, SIGNATURE)
        (problem,) = refused.value.problems
        assert problem.pointer == pointer
        assert words in problem.detail


def test_the_pipeline_makes_tensors_and_its_key_follows_the_numbers() -> None:
    (described,) = parse({"kind": "standardize", "mean": [0], "std": [2]}, SIGNATURE)
    pipeline = for_signature(SIGNATURE, [described])
    other = for_signature(SIGNATURE, [{**described, "std": [2, 2, 3]}])

    made = pipeline.tensors({"x": np.full((1, 3), 4, np.float32)})

    assert made["x"].tolist() == [[2, 2, 2]]
    assert pipeline.key != other.key
