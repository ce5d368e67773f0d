"""Files of parameters: what is wrong with them is named, all of it."""

import json
import tracemalloc

import numpy as np
import pytest
from safetensors.numpy import load, save

from service.errors import InvalidInput
from service.federation.tensor_file import (
    header_of,
    most_header_bytes,
    read_entries,
    read_pieces,
    require_parameters,
)

EXPECTED = {"a/weight": (2, 3), "b": (4,)}


def good():
    return {"a/weight": np.ones((2, 3), np.float32), "b": np.arange(4, dtype=np.float32)}


def refused(tmp_path, content, expected=EXPECTED):
    path = tmp_path / "sent"
    path.write_bytes(content)
    with pytest.raises(InvalidInput) as error:
        require_parameters(path, expected)
    return {problem.pointer: problem.detail for problem in error.value.problems}


def test_the_models_own_parameters_are_taken(tmp_path):
    path = tmp_path / "sent"
    path.write_bytes(save(good()))
    require_parameters(path, EXPECTED)


@pytest.mark.parametrize(
    ("name", "value", "detail"),
    [
        ("b", np.arange(4, dtype=np.float64), "it is F64 [4], the model has F32 [4]"),
        ("b", np.ones((2, 2), np.float32), "it is F32 [2, 2], the model has F32 [4]"),
        ("b", np.array([0, 1, np.nan, 3], np.float32), "the value at [2] is nan"),
        ("a/weight", np.full((2, 3), -np.inf, np.float32), "the value at [0, 0] is -inf"),
        ("c", np.ones(1, np.float32), "the model trains no parameter of this name"),
    ],
)
def test_what_does_not_fit_is_named(tmp_path, name, value, detail):
    told = refused(tmp_path, save({**good(), name: value}))
    pointer = "/" + name.replace("/", "~1")
    assert told.keys() == {pointer}
    assert told[pointer].startswith(detail)


def test_all_that_is_wrong_is_named_at_once(tmp_path):
    told = refused(tmp_path, save({"x": np.ones(1, np.float32)}))
    assert told == {
        "/a~1weight": "it is missing; the model has it as F32 [2, 3]",
        "/b": "it is missing; the model has it as F32 [4]",
        "/x": "the model trains no parameter of this name",
    }


def test_an_adapter_is_told_as_such(tmp_path):
    told = refused(tmp_path, save(good()), {**EXPECTED, "b.lora_A": (4, 2)})
    adapter = "it is missing; the model has it as F32 [4, 2], an adapter, which no ONNX file has"
    assert told == {"/b.lora_A": adapter}


def header(**tensors):
    text = json.dumps(tensors).encode()
    return len(text).to_bytes(8, "little") + text


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x05",
        (2**40).to_bytes(8, "little") + b"{}",
        b"\x02" + bytes(7) + b"[]",
        header(b={"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}),
        header(b={"dtype": "F32", "shape": [4], "data_offsets": [4, 20]}) + bytes(20),
        header(b={"dtype": "F32", "shape": [-4], "data_offsets": [0, 16]}) + bytes(16),
        header(b={"dtype": "F32", "data_offsets": [0, 16]}) + bytes(16),
        header(
            b={"dtype": "F32", "shape": [4], "data_offsets": [0, 16]},
            c={"dtype": "F32", "shape": [4], "data_offsets": [0, 16]},
        )
        + bytes(16),
        save(good())[:-1],
        save(good(), metadata={"hone": "{}"}),
        b"PK\x03\x04" + bytes(100),
    ],
)
def test_what_is_no_safetensors_is_refused(tmp_path, content):
    assert refused(tmp_path, content).keys() == {""}


@pytest.mark.parametrize(
    "content", [b"", b"zz", b"PK\x03\x04" + bytes(100), b"\x89PNG\r\n\x1a\n" + bytes(9)]
)
def test_another_file_is_told_by_its_beginning(tmp_path, content):
    assert "does not begin with the length of a header" in refused(tmp_path, content)[""]


def test_a_shape_that_lies_about_its_bytes_is_refused(tmp_path):
    content = header(b={"dtype": "F32", "shape": [4], "data_offsets": [0, 12]}) + bytes(12)
    assert "invalid shape, data type, or offset" in refused(tmp_path, content, {"b": (4,)})[""]


def test_a_header_longer_than_the_models_could_be_is_not_read(tmp_path):
    text = b'{"' + b"x" * 16_000_000 + b'":0}'
    path = tmp_path / "sent"
    path.write_bytes(len(text).to_bytes(8, "little") + text)
    tracemalloc.start()
    try:
        with pytest.raises(InvalidInput) as error:
            require_parameters(path, EXPECTED)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    (problem,) = error.value.problems
    assert f"its header has {len(text)} bytes" in problem.detail
    assert f"at most {most_header_bytes(EXPECTED)}" in problem.detail
    assert peak_bytes < 1_000_000


def test_another_programs_header_with_escapes_spaces_and_metadata_is_read(tmp_path):
    expected = {f"é中.{number}": (2, 2) for number in range(50)}
    values = {name: np.ones(shape, np.float32) for name, shape in expected.items()}
    content = save(values, metadata={"format": "x" * 10_000})
    length = int.from_bytes(content[:8], "little")
    spaced = json.dumps(json.loads(content[8 : 8 + length]), indent=1).encode()
    assert b"\\u4e2d" in spaced
    path = tmp_path / "sent"
    path.write_bytes(len(spaced).to_bytes(8, "little") + spaced + content[8 + length :])
    require_parameters(path, expected)


@pytest.mark.parametrize(
    "tensors",
    [
        {"x" * 9000: {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}},
        {"b": {"dtype": "F" * 9000, "shape": [4], "data_offsets": [0, 16]}},
        {"b": {"dtype": "F32", "shape": [1] * 4000 + [4], "data_offsets": [0, 16]}},
        {"b": {"dtype": "F32", "shape": ["x" * 9000], "data_offsets": [0, 16]}},
        {"b": {"dtype": "F32", "shape": [4], "data_offsets": [0, 10**4000]}},
        {"b": {"dtype": "F32", "shape": [10**4000], "data_offsets": [0, 16]}},
        {"x" * 9000: {"dtype": "F32", "shape": [4], "data_offsets": [8, 16]}},
        {
            f"{number}": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
            for number in range(220)
        },
    ],
)
def test_what_an_error_repeats_of_a_file_is_bounded(tmp_path, tensors):
    told = refused(tmp_path, header(**tensors) + bytes(16))
    assert len(told) <= 100
    assert max(len(text) for text in (*told, *told.values())) < 500


def test_what_is_written_is_read_by_the_library(tmp_path):
    path = tmp_path / "sent"
    path.write_bytes(save(good()))
    entries = read_entries(path)
    pieces = read_pieces(path, [entries[name] for name in EXPECTED], size=5)
    content = header_of(EXPECTED, {"version": "3"}) + b"".join(pieces)
    path.write_bytes(content)
    assert list(read_entries(path)) == list(EXPECTED)
    again = load(content)
    assert again.keys() == EXPECTED.keys()
    assert all(np.array_equal(again[name], value) for name, value in good().items())
