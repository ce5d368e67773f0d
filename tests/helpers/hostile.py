"""Hostile bodies: near to what is right, or far from it.

Each is made from a `random.Random`, of which hypothesis draws and reports the seed: a strategy of
hypothesis that makes such a body takes forty times longer, most of what a fuzz test has. A test
draws one and makes all of its input from it: hypothesis tries each seed once, but of two that are
drawn it pairs anew what it had, and nearly half of 100,000 inputs came twice.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, TypeVar

import numpy as np
from hypothesis import strategies as st

from service.errors import InvalidInput, TooLarge
from storage.records.models import Model
from storage.store import Store

T = TypeVar("T")
Make = Callable[[Random], T]
RANDOM = st.randoms(use_true_random=True)


@dataclass(frozen=True, repr=False)
class Doors:
    """A store, and models of every form in it."""

    store: Store
    classes: Model
    values: Model
    several: Model
    images: Model
    recordings: Model
    texts: Model
    pairs: Model
    spans: Model
    forecasts: Model


def one_of(*makes: Make[T]) -> Make[T]:
    """What one of them makes."""
    return lambda r: r.choice(makes)(r)


def listed(make: Make[T], most: int) -> Make[list[T]]:
    """A list of up to so many."""
    return lambda r: [make(r) for _ in range(r.randint(0, most))]


def flip(r: Random) -> bool:
    """Either."""
    return r.random() < 0.5


ODD_TEXTS = ["", "\ud800", "\x00", "[" * 5000, "9" * 5000, "1e999", "-0", "NaN", "cat", "x[0]"]
ODD_TEXTS += [
    "0x10",
    "١٢",
    "é",
    "e\u0301",
    "\ufeff",
    "\u202e",
    "../..",
    "%00",
    "\r\n",
    "'\"",
    "null",
]
NUMBERS = [0, 1, -1, 3, True, False, 0.5, -0.0, 1e308, 5e-324, float("nan"), float("inf")]
NUMBERS += [10**400, 2**31, 2**63 - 1, 2**63, -(2**63) - 1, -(2**64), 2**53 + 1, 10**18]


def odd_text(r: Random) -> str:
    """Text that a parser may stumble over."""
    return r.choice(ODD_TEXTS)


def text(r: Random) -> str:
    """Some characters of any script."""
    return "".join(chr(r.choice((r.randint(0, 127), r.randint(0, 0xFFFF)))) for _ in range(some(r)))


def some(r: Random) -> int:
    """A small count."""
    return r.randint(0, 8)


def raw(r: Random, most: int = 60) -> bytes:
    """Any bytes."""
    return r.randbytes(r.randint(0, most))


def scalar(r: Random) -> Any:
    """A value of JSON without parts."""
    kind = r.randrange(6)
    if kind < 2:
        return r.choice(NUMBERS)
    if kind == 2:
        return r.getrandbits(r.choice((3, 8, 33, 64))) * r.choice((1, -1, 0.1))
    return (text(r), odd_text(r), None)[kind - 3]


def deep(r: Random) -> Any:
    """A list within lists, deeper than arrays can be."""
    value = scalar(r)
    for _ in range(r.randint(1, 90)):
        value = [value]
    return value


def json_value(r: Random, depth: int = 3) -> Any:
    """Any value of JSON."""
    kind = r.randrange(8) if depth else 0
    if kind < 4:
        return scalar(r)
    if kind == 4:
        return deep(r)
    if kind < 7:
        return [json_value(r, depth - 1) for _ in range(r.randint(0, 4))]
    return {text(r): json_value(r, depth - 1) for _ in range(r.randint(0, 3))}


def nearly(names: list[str], value: Make[Any]) -> Make[dict[str, Any]]:
    """Objects that have mostly these fields."""

    def make(r: Random) -> dict[str, Any]:
        chosen = [name for name in names if r.random() < 0.7]
        if r.random() < 0.2:
            chosen.append(one_of(text, odd_text)(r))
        return {name: value(r) for name in chosen}

    return make


def changed(r: Random, good: Any) -> Any:
    """The value with one of its parts replaced, left out or doubled."""
    if not isinstance(good, (dict, list)) or not good or r.random() < 0.1:
        return json_value(r)
    copy: Any = good.copy()
    at = r.choice(list(copy)) if isinstance(copy, dict) else r.randrange(len(copy))
    how = r.randrange(10)
    if how == 0:
        del copy[at]
    elif how == 1 and isinstance(copy, dict):
        copy[one_of(text, odd_text)(r)] = copy[at]
    elif how == 1:
        copy.append(copy[at])
    else:
        copy[at] = changed(r, copy[at])
    return copy


def as_body(value: Any) -> bytes:
    """JSON as a client writes it that escapes what is no UTF-8."""
    return json.dumps(value).encode()


DTYPES = ["'<f4'", "'<f8'", "'>f4'", "'<i8'", "'|b1'", "'<U3'", "'<U0'", "'<U400000000'", "'|O'"]
DTYPES += ["'<f16'", "'<f3'", "'<M8[ns]'", "'<M8[zz]'", "'<c8'", "'|S0'", "'|V0'", "'<U-1'", "''"]
DTYPES += ["'f4,f4'", "[('a', '<f4')]", "('<f4', (2,))", "None", "7", "'<f4\\ud800'", "'\\x00'"]
AXES = ["0", "1", "3", "-1", "True", "0x3", "3L", "1e3", "10**9", str(2**40), str(2**63)]
AXES += ["9" * 5000]
SHAPES = ["(3, 3)", "(3,)", "3", "None", f"({'1, ' * 71})", "[3, 3]", "(" * 200]
HEADER_ODDS = ["(", "{", "}", "'", ",", "0x", "\n", "\\", "\xff", "#"]


def npy_header(r: Random) -> bytes:
    """The text of an .npy header, which may say anything."""
    axes = [r.choice(AXES) for _ in range(r.randint(0, 4))]
    shape = r.choice((f"({', '.join(axes)}{',' if axes else ''})", r.choice(SHAPES)))
    order = r.choice(("True", "False", "1", "None"))
    said = f"{{'descr': {r.choice(DTYPES)}, 'fortran_order': {order}, 'shape': {shape}, }}"
    if flip(r):
        at = r.randint(0, len(said))
        said = said[:at] + r.choice(HEADER_ODDS) * r.randint(1, 99) + said[at:]
    return said.encode("latin-1", errors="replace") + r.choice((b"\n", b"", b" " * 9))


def npy(r: Random) -> bytes:
    """An .npy file, whole or hostile."""
    if flip(r):
        dtype = np.dtype(r.choice(("<f4", ">f8", "<i8", "<U3", "?", "<f2", "<u1", "<c8")))
        shape = tuple(r.randint(0, 4) for _ in range(r.randint(0, 3)))
        array = np.frombuffer(r.randbytes(int(np.prod(shape)) * dtype.itemsize), dtype)
        buffer = io.BytesIO()
        array = np.asarray(array.reshape(shape), order=r.choice(("C", "F")))
        np.lib.format.write_array(buffer, array)
        return buffer.getvalue()
    header = npy_header(r)
    version = r.choice((1, 2, 3, 9))
    length = len(header) if flip(r) else r.randint(0, 2**16 - 1)
    size = length.to_bytes(2 if version == 1 else 4, "little")
    return b"\x93NUMPY" + bytes([version, 0]) + size + header + raw(r, 80)


def damaged(r: Random, body: bytes) -> bytes:
    """A body with some bytes changed, cut away or put in."""
    data = bytearray(body)
    for _ in range(r.randint(0, 4)):
        at = r.randint(0, max(0, len(data) - 1))
        match r.randrange(4):
            case 0:
                data[at : at + 1] = r.randbytes(1)
            case 1:
                del data[at : at + r.randint(1, 40)]
            case 2:
                data[at:at] = raw(r, 8)
            case _:
                del data[at:]
    return bytes(data)


COMPRESSIONS = (*[zipfile.ZIP_STORED] * 6, *[zipfile.ZIP_DEFLATED] * 6)
COMPRESSIONS += (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
"""The last two seldom, for they take milliseconds."""


def zipped(names: list[str], member: Make[bytes]) -> Make[bytes]:
    """A zip with entries of these names, in any compression, which may be damaged."""

    def make(r: Random) -> bytes:
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            for name in r.sample(names, r.randint(0, min(4, len(names)))):
                archive.writestr(name, member(r), r.choice(COMPRESSIONS))
        return damaged(r, buffer.getvalue())

    return make


def refused_or_done(act: Callable[[], object]) -> None:
    """The reason must be one that can be sent as JSON."""
    try:
        act()
    except (InvalidInput, TooLarge) as error:
        shown = [error.detail, *(f"{each.pointer}{each.detail}" for each in error.problems)]
        json.dumps(shown, ensure_ascii=False).encode()
