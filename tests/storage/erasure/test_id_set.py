import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.records.id_set import decode, encode, meeting, union

IDS = st.integers(1, 300) | st.integers(2**40, 2**40 + 50)


@given(st.sets(IDS))
def test_a_set_comes_back_in_rising_order(ids):
    assert decode(encode(ids)).tolist() == sorted(ids)


@given(st.lists(st.sets(IDS)), st.lists(IDS))
def test_sets_tell_whether_one_of_some_ids_is_in_them(sets, ids):
    found = meeting(map(encode, sets), np.array(ids, np.int64))
    assert found == [not each.isdisjoint(ids) for each in sets]


@given(st.lists(st.lists(IDS)))
def test_a_union_holds_each_id_once(sets):
    together = union(np.array(each, np.int64) for each in sets)
    assert together.tolist() == sorted({id_ for each in sets for id_ in each})


def test_a_million_ids_take_little_room():
    everyone = np.arange(1, 1_000_001)
    assert len(encode(everyone)) < 100
    assert len(encode(everyone[::2])) < 16_384


def test_other_bytes_are_refused():
    with pytest.raises(ValueError, match="not a set of ids"):
        decode(b"label")
