"""Strategies of hostile bodies: near to what is right, or far from it."""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from storage.records.models import Model
from storage.store import Store


@dataclass(frozen=True, repr=False)
class Doors:
    """A store, and models of every form in it."""

    store: Store
    classes: Model
    values: Model
    several: Model
    images: Model


ODD_TEXT = st.sampled_from(
    ["", "\ud800", "\x00", "[" * 5000, "9" * 5000, "1e999", "-0", "NaN", "cat", "x[0]", "0x10"]
)
NUMBERS = st.one_of(
    st.integers(), st.floats(), st.just(10**400), st.just(2**63), st.just(-(2**64)), st.booleans()
)
SCALARS = st.one_of(NUMBERS, st.text(max_size=20), ODD_TEXT, st.none())


@st.composite
def deep(draw: st.DrawFn) -> Any:
    """A list within lists, deeper than arrays can be."""
    value = draw(SCALARS)
    for _ in range(draw(st.integers(1, 90))):
        value = [value]
    return value


JSON_VALUES = st.recursive(
    SCALARS | deep(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=12,
)


def nearly(names: list[str], values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Objects that have mostly these fields."""
    name = st.sampled_from(names) | st.text(max_size=5) | ODD_TEXT
    return st.dictionaries(name, values, max_size=6)


def as_body(value: Any) -> bytes:
    """JSON as a client writes it that escapes what is no UTF-8."""
    return json.dumps(value).encode()


DTYPES = st.sampled_from(
    [
        *("'<f4'", "'<f8'", "'>f4'", "'<i8'", "'|b1'", "'<U3'", "'<U0'", "'<U400000000'", "'|O'"),
        *("'<f16'", "'<f3'", "'<M8[ns]'", "'<M8[zz]'", "'<c8'", "'|S0'", "'|V0'", "'<U-1'", "''"),
        *("'f4,f4'", "[('a', '<f4')]", "('<f4', (2,))", "None", "7", "'<f4\\ud800'", "'\\x00'"),
    ]
)
AXES = st.sampled_from(
    ["0", "1", "3", "-1", "True", "0x3", "3L", "1e3", "10**9", str(2**40), str(2**63), "9" * 5000]
)
SHAPES = st.one_of(
    st.lists(AXES, max_size=4).map(lambda axes: f"({', '.join(axes)}{',' if axes else ''})"),
    st.sampled_from(["(3, 3)", "(3,)", "3", "None", f"({'1, ' * 71})", "[3, 3]", "(" * 200]),
)


@st.composite
def npy_header(draw: st.DrawFn) -> bytes:
    """The text of an .npy header, which may say anything."""
    order = draw(st.sampled_from(["True", "False", "1", "None"]))
    text = f"{{'descr': {draw(DTYPES)}, 'fortran_order': {order}, 'shape': {draw(SHAPES)}, }}"
    if draw(st.booleans()):
        at = draw(st.integers(0, len(text)))
        odd = st.sampled_from(["(", "{", "}", "'", ",", "0x", "\n", "\\", "\xff", "#"])
        text = text[:at] + draw(odd) * draw(st.integers(1, 99)) + text[at:]
    return text.encode("latin-1", errors="replace") + draw(st.sampled_from([b"\n", b"", b" " * 9]))


@st.composite
def npy(draw: st.DrawFn) -> bytes:
    """An .npy file, whole or hostile."""
    if draw(st.booleans()):
        dtype = draw(st.sampled_from(["<f4", ">f8", "<i8", "<U3", "?", "<f2", "<u1", "<c8"]))
        shape = tuple(draw(st.lists(st.integers(0, 4), max_size=3)))
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        array = np.frombuffer(draw(st.binary(min_size=size, max_size=size)), dtype)
        buffer = io.BytesIO()
        array = np.asarray(array.reshape(shape), order=draw(st.sampled_from(["C", "F"])))
        np.lib.format.write_array(buffer, array)
        return buffer.getvalue()
    header = draw(npy_header())
    version = draw(st.sampled_from([1, 2, 3, 9]))
    length = len(header) if draw(st.booleans()) else draw(st.integers(0, 2**16 - 1))
    prefix = (
        b"\x93NUMPY" + bytes([version, 0]) + length.to_bytes(2 if version == 1 else 4, "little")
    )
    return prefix + header + draw(st.binary(max_size=80))


@st.composite
def damaged(draw: st.DrawFn, body: bytes) -> bytes:
    """A body with some bytes changed, cut away or put in."""
    data = bytearray(body)
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, max(0, len(data) - 1)))
        match draw(st.sampled_from(["change", "cut", "insert", "end"])):
            case "change":
                data[at : at + 1] = draw(st.binary(min_size=1, max_size=1))
            case "cut":
                del data[at : at + draw(st.integers(1, 40))]
            case "insert":
                data[at:at] = draw(st.binary(max_size=8))
            case _:
                del data[at:]
    return bytes(data)


@st.composite
def zipped(draw: st.DrawFn, names: list[str], members: st.SearchStrategy[bytes]) -> bytes:
    """A zip with entries of these names, in any compression, which may be damaged."""
    kinds = [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in draw(st.lists(st.sampled_from(names), max_size=4, unique=True)):
            archive.writestr(name, draw(members), draw(st.sampled_from(kinds)))
    return draw(damaged(buffer.getvalue()))
