"""Tensors arrive as they were sent."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from service.prediction.frames import SIZES, Frame, decode, encode

DTYPES = st.sampled_from(["<f4", "<f8", "<f2", "<i8", "<i4", "|u1", "|i1", "|b1"])
ARRAYS = DTYPES.flatmap(lambda dtype: arrays.arrays(dtype, arrays.array_shapes(min_side=0)))


def parts(frame: Frame) -> tuple[bytes, bytes]:
    whole = b"".join(encode(frame))
    header_bytes, payload_bytes = SIZES.unpack_from(whole)
    header = whole[SIZES.size : SIZES.size + header_bytes]
    payload = whole[SIZES.size + header_bytes :]
    assert len(payload) == payload_bytes
    return header, payload


@given(st.dictionaries(st.text(max_size=9), ARRAYS, max_size=3))
def test_a_frame_comes_back_whole(tensors: dict[str, np.ndarray]) -> None:
    back = decode(*parts(Frame({"answer": 42}, tensors)))

    assert back.header == {"answer": 42}
    assert list(back.tensors) == list(tensors)
    for name, array in tensors.items():
        assert back.tensors[name].dtype == array.dtype
        assert back.tensors[name].shape == array.shape
        assert back.tensors[name].tobytes() == array.tobytes()


def test_a_strided_array_is_sent_in_order() -> None:
    array = np.arange(12).reshape(3, 4).T

    back = decode(*parts(Frame({}, {"x": array})))

    np.testing.assert_array_equal(back.tensors["x"], array)


def test_a_payload_of_another_length_is_refused() -> None:
    header, payload = parts(Frame({}, {"x": np.zeros(3)}))

    with pytest.raises(ValueError, match="take 24 bytes, 32 came"):
        decode(header, payload + b"12345678")
