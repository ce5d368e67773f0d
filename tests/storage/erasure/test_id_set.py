import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.records.id_set import decode, encode


@given(st.sets(st.integers(1, 300) | st.integers(2**40, 2**40 + 50)))
def test_a_set_comes_back_in_rising_order(ids):
    assert decode(encode(ids)).tolist() == sorted(ids)


def test_a_million_ids_take_little_room():
    everyone = np.arange(1, 1_000_001)
    assert len(encode(everyone)) < 100
    assert len(encode(everyone[::2])) < 16_384


def test_other_bytes_are_refused():
    with pytest.raises(ValueError, match="not a set of ids"):
        decode(b"label")
