"""Numbers of an answer: short in JSON, and still the same."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from service.prediction.answers import as_json, numbers


@given(
    arrays.arrays(
        st.sampled_from([np.float16, np.float32, np.float64]),
        st.integers(1, 20),
        elements={"allow_nan": False, "allow_infinity": False},
    )
)
def test_a_number_in_json_is_the_same_number(array: np.ndarray) -> None:
    np.testing.assert_array_equal(np.array(numbers(array)).astype(array.dtype), array)


@pytest.mark.parametrize("number", [0.1, -1 / 3, 123456.78, 1e-13, 3.4e8])
def test_a_float32_takes_nine_digits_at_most(number: float) -> None:
    (said,) = numbers(np.array([number], np.float32))
    digits = repr(said).partition("e")[0].replace(".", "").lstrip("-0")
    assert len(digits.rstrip("0")) <= 9


def test_numbers_that_json_lacks_are_null() -> None:
    array = np.array([[1, np.nan], [np.inf, -np.inf]], np.float32)
    said = json.loads(as_json({"values": array}, names=None))
    assert said == {"predictions": [{"values": [1.0, None]}, {"values": [None, None]}]}
